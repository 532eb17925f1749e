package handlers

import (
	"slices"
	"sort"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// lists counts the comparisons to merge two lists, and returns the keys of the merged list.
func (c *comparisons) lists(original, patch []any, key string, schema strategicpatch.LookupPatchMeta, deletes bool) []any {
	objects, ok := c.kindOf(original, patch)
	switch {
	case !ok, objects && key == "", !objects && deletes:
		return nil // upstream rejects the first two cases, and uses a lookup for the third
	case objects:
		return c.merge(original, patch, key, schema)
	}
	merged := c.distinct(slices.Concat(original, patch))
	if key != "" || c.tooMany() {
		return nil
	}
	return c.arrange(merged, patch, original, false)
}

// distinct counts the comparisons to remove duplicates from a list of scalars: each remaining element is compared with all that are left behind it.
func (c *comparisons) distinct(list []any) []any {
	count := make(map[any]int, len(list))
	for _, element := range list {
		count[element]++
	}
	left, kept := len(list), make([]any, 0, len(count))
	for _, element := range list {
		if count[element] > 0 {
			c.n += int64(left - 1)
			left -= count[element]
			count[element] = 0
			kept = append(kept, element)
		}
	}
	return kept
}

// element is an element of a list of objects.
type element struct {
	key    any
	object map[string]any
	copied bool           // the object is not shared
	last   map[string]any // merged into the element, but not in object yet
}

// again is the count for an element that the patch repeats, so that repeating it often cannot make the count itself slow.
const again = 64 << 10

// merged returns the element with everything merged into it. It is needed only for patches that repeat a key.
func (c *comparisons) merged(e *element) map[string]any {
	if e.last != nil {
		c.n += again
		if !e.copied {
			e.object, e.copied = c.copyOf(e.object), true
		}
		overlay(e.object, e.last)
		e.last = nil
	}
	return e.object
}

// copyOf returns a copy whose fields can be set and whose lists can grow.
func (c *comparisons) copyOf(object map[string]any) map[string]any {
	c.n += reading * int64(len(object))
	result := make(map[string]any, len(object))
	for name, value := range object {
		switch value := value.(type) {
		case map[string]any:
			result[name] = c.copyOf(value)
		case []any:
			c.n += int64(len(value)) // copied when the list grows
			result[name] = slices.Clip(value)
		default:
			result[name] = value
		}
	}
	return result
}

// overlay adds the members of a patch: its lists become at least as long as merged ones.
func overlay(into, patch map[string]any) {
	for name, value := range patch {
		switch value := value.(type) {
		case map[string]any:
			old, ok := into[name].(map[string]any)
			if !ok {
				old = make(map[string]any, len(value))
				into[name] = old
			}
			overlay(old, value)
		case []any:
			old, _ := into[name].([]any)
			into[name] = append(old, value...)
		default:
			into[name] = value
		}
	}
}

// nests tells whether an object has members other than scalars.
func nests(object map[string]any) bool {
	for _, value := range object {
		switch value.(type) {
		case map[string]any, []any:
			return true
		}
	}
	return false
}

// merge counts the comparisons to merge two lists of objects, and returns the keys of the merged list.
func (c *comparisons) merge(original, patch []any, key string, schema strategicpatch.LookupPatchMeta) []any {
	have := make([]element, len(original), len(original)+len(patch))
	for i, object := range original {
		have[i] = element{key: keyOf(object, key), object: object.(map[string]any)}
	}
	var sent, deleted []any
	replaces := false
	for _, object := range patch {
		switch directive, ok := object.(map[string]any)["$patch"]; {
		case !ok:
			sent = append(sent, object)
		case directive == "delete":
			deleted = append(deleted, keyOf(object, key))
		case directive == "replace":
			replaces = true
		}
	}
	have = c.without(have, deleted)
	if replaces {
		have = nil
	}
	server := make([]any, len(have))
	for i, e := range have {
		server[i] = e.key
	}
	by := keysOf(sent, key)
	at := places(server)
	for i, key := range by {
		if c.tooMany() {
			return nil
		}
		object := sent[i].(map[string]any)
		if place, found := c.find(at, len(have), key); found {
			if nests(object) {
				c.objects(c.merged(&have[place]), object, schema)
				have[place].last = object
			}
		} else {
			at[key] = len(have)
			have = append(have, element{key: key, object: object})
		}
	}
	merged := make([]any, len(have))
	for i, e := range have {
		merged[i] = e.key
	}
	return c.arrange(merged, by, server, true)
}

// without counts the comparisons to delete elements: one search per element, and a last one that finds none.
func (c *comparisons) without(have []element, deleted []any) []element {
	if len(deleted) == 0 {
		return have
	}
	count, gone := map[any]int{}, map[any]bool{}
	for _, e := range have {
		count[e.key]++
	}
	left := len(have)
	for _, key := range deleted {
		n := count[key]
		left -= n
		c.n += int64(max(n, 1)) * int64(left)
		count[key], gone[key] = 0, true
	}
	return slices.DeleteFunc(have, func(e element) bool { return gone[e.key] })
}

// arrange counts the comparisons to sort a merged list, and returns it sorted: elements in by in the order of by, the others in the order of
// server.
func (c *comparisons) arrange(merged, by, server []any, objects bool) []any {
	byPlace, serverPlace := places(by), places(server)
	var sent, others []any
	for _, key := range merged {
		_, found := byPlace[key]
		if objects {
			c.find(byPlace, len(by), key)
		}
		if found {
			sent = append(sent, key)
		} else {
			others = append(others, key)
		}
	}
	c.sort(sent, byPlace, len(by))
	c.sort(others, serverPlace, len(server))
	arranged := make([]any, 0, len(merged))
	for len(sent) > 0 && len(others) > 0 && !c.tooMany() {
		a, isServers := c.find(serverPlace, len(server), others[0])
		b, both := c.find(serverPlace, len(server), sent[0])
		if isServers && both && a < b {
			arranged, others = append(arranged, others[0]), others[1:]
		} else {
			arranged, sent = append(arranged, sent[0]), sent[1:]
		}
	}
	return slices.Concat(arranged, sent, others)
}

func (c *comparisons) sort(keys []any, places map[any]int, n int) {
	sort.SliceStable(keys, func(i, j int) bool {
		if c.tooMany() {
			return false
		}
		if a, found := c.find(places, n, keys[i]); found {
			if b, found := c.find(places, n, keys[j]); found {
				return a < b
			}
		}
		return true
	})
}

// find counts the comparisons to find a key in a list of n.
func (c *comparisons) find(places map[any]int, n int, key any) (place int, found bool) {
	place, found = places[key]
	if found {
		n = place + 1
	}
	c.n += int64(n)
	return place, found
}

// places returns the first position of each key in a list.
func places(keys []any) map[any]int {
	at := make(map[any]int, len(keys))
	for i, key := range keys {
		if _, ok := at[key]; !ok {
			at[key] = i
		}
	}
	return at
}

// keysOf returns the keys of elements, or the elements themselves in a list of scalars.
func keysOf(list []any, key string) []any {
	keys := make([]any, len(list))
	for i, element := range list {
		keys[i] = keyOf(element, key)
	}
	return keys
}

// keyOf returns the key of an element. A missing or incomparable key equals no other.
func keyOf(element any, key string) any {
	if object, ok := element.(map[string]any); ok {
		if element, ok = object[key]; !ok {
			return new(byte)
		}
	}
	switch element.(type) {
	case map[string]any, []any:
		return new(byte)
	}
	return element
}
