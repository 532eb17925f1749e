package handlers

import (
	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// keyedList is a list of objects that a member of each identifies.
type keyedList struct {
	elements []gjson.Result
	keys     []string
	at       map[string]int // by key
}

// keyed reads a list. ok is false if an element is no object, or lacks a unique key that is a string or a whole number.
func keyed(list gjson.Result, key string) (l keyedList, ok bool) {
	l.at, ok = map[string]int{}, true
	list.ForEach(func(_, element gjson.Result) bool {
		var k string
		if k, ok = keyOfText(element, key); !ok {
			return false
		}
		if _, twice := l.at[k]; twice {
			ok = false
			return false
		}
		l.at[k] = len(l.keys)
		l.elements, l.keys = append(l.elements, element), append(l.keys, k)
		return true
	})
	return l, ok
}

// keyOfText returns the key of an element, with a prefix for its type. It accepts only numbers with a single spelling.
func keyOfText(element gjson.Result, key string) (k string, ok bool) {
	if !element.IsObject() {
		return "", false
	}
	found := 0
	element.ForEach(func(name, value gjson.Result) bool {
		if name.Str != key {
			return true
		}
		found++
		switch {
		case value.Type == gjson.String:
			k, ok = "s"+value.Str, true
		case value.Type == gjson.Number && isWholeNumber(value.Raw):
			k, ok = "n"+value.Raw, true
		}
		return true
	})
	return k, ok && found == 1
}

// isWholeNumber tells whether a JSON number consists of digits alone and fits into 64 bits.
func isWholeNumber(raw string) bool {
	for i := range len(raw) {
		if raw[i] < '0' || raw[i] > '9' {
			return false
		}
	}
	return len(raw) <= 18
}

// list writes a list of objects merged by their keys. The order is upstream's: elements in $setElementOrder, or else in the patch, keep that order;
// each other element stays before those that followed it.
func (m *strategicText) list(old gjson.Result, c *strategicChange, key string, schema strategicpatch.LookupPatchMeta) bool {
	if key == "" {
		return false // scalars
	}
	have, ok := keyed(old, key)
	if !ok {
		return false
	}
	sent, ok := keyed(c.value, key)
	if !ok || len(have.keys) == 0 && len(sent.keys) == 0 {
		return false
	}
	by := sent
	if c.order.Exists() {
		if by, ok = keyed(c.order, key); !ok || !inOrder(sent, by) {
			return false
		}
	}
	m.out.WriteByte('[')
	for i, k := range arranged(have, sent, by) {
		if i > 0 {
			m.out.WriteByte(',')
		}
		if !m.element(have, sent, k, schema) {
			return false
		}
	}
	m.out.WriteByte(']')
	return true
}

// element writes the element of a key.
func (m *strategicText) element(have, sent keyedList, key string, schema strategicpatch.LookupPatchMeta) bool {
	i, there := have.at[key]
	j, changed := sent.at[key]
	switch {
	case there && changed:
		return m.object(have.elements[i], sent.elements[j], schema)
	case changed:
		return m.whole(sent.elements[j])
	}
	m.out.WriteString(have.elements[i].Raw)
	return true
}

// inOrder tells whether a list is a subsequence of another.
func inOrder(part, of keyedList) bool {
	last := -1
	for _, k := range part.keys {
		at, found := of.at[k]
		if !found || at < last {
			return false
		}
		last = at
	}
	return true
}

// arranged returns the keys of a merged list in order.
func arranged(have, sent, by keyedList) []string {
	var others, first []string
	for _, k := range have.keys {
		if _, found := by.at[k]; !found {
			others = append(others, k)
		}
	}
	for _, k := range by.keys {
		_, there := have.at[k]
		_, new := sent.at[k]
		if there || new {
			first = append(first, k)
		}
	}
	keys := make([]string, 0, len(others)+len(first))
	for len(others) > 0 && len(first) > 0 {
		if at, found := have.at[first[0]]; found && have.at[others[0]] < at {
			keys, others = append(keys, others[0]), others[1:]
		} else {
			keys, first = append(keys, first[0]), first[1:]
		}
	}
	return append(append(keys, first...), others...)
}
