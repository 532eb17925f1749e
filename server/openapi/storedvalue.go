package openapi

import (
	"bytes"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// These functions copy values of a stored schema: upstream would decode and encode them to the same text.

// copyText copies a string, which must not be empty.
func (w *storedSchema) copyText() bool {
	if w.Peek() != '"' {
		return false
	}
	raw, ok := w.Raw()
	w.copyRaw(raw)
	return ok && len(raw) > 2 && isCopied(raw)
}

// copyRaw copies a string in the document's style: version 2 does not escape characters for the sake of HTML.
func (w *storedSchema) copyRaw(raw []byte) {
	if !w.v2 {
		w.out = append(w.out, raw...)
		return
	}
	for {
		i := bytes.Index(raw, []byte(`\`))
		if i < 0 {
			w.out = append(w.out, raw...)
			return
		}
		w.out, raw = append(w.out, raw[:i]...), raw[i:]
		if raw[1] != 'u' {
			w.out, raw = append(w.out, raw[:2]...), raw[2:]
			continue
		}
		var n int
		if w.out, n = jsonscan.AppendEscape(w.out, raw); n == 0 {
			n = len(raw) // isCopied will report it
		}
		raw = raw[n:]
	}
}

// isCopied tells whether a string has only escapes that upstream writes; for other characters upstream's escapes vary.
func isCopied(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return true
		}
		switch raw[i+1] {
		case '"', '\\', 'n', 'r', 't':
			raw = raw[i+2:]
			continue
		case 'u':
			switch string(raw[i+2 : i+6]) {
			case "003c", "003e", "0026", "2028", "2029":
				raw = raw[i+6:]
				continue
			}
		}
		return false
	}
}

// isPlain tells whether a name needs no escapes, and sorts the same in any order of strings.
func isPlain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, c) >= 0 {
			return false
		}
	}
	return true
}

func (w *storedSchema) copyWord(word string) bool {
	if !w.Word(word) {
		return false
	}
	w.out = append(w.out, word...)
	return true
}

// copyNumber copies a number with few digits, which has only one encoding.
func (w *storedSchema) copyNumber() bool {
	text, _, ok := w.Number()
	w.out = append(w.out, text...)
	return ok && isShort(text)
}

// isShort tells whether a number has no exponent, and no more digits than a float64 can represent.
func isShort(number string) bool {
	whole, fraction, fractional := strings.Cut(strings.TrimPrefix(number, "-"), ".")
	if len(whole)+len(fraction) > 15 || strings.ContainsAny(number, "eE") || number == "-0" {
		return false
	}
	return !fractional || !strings.HasSuffix(fraction, "0") && !(whole == "0" && strings.HasPrefix(fraction, "00000"))
}

// copyValue copies any value: a default, or an example, which is omitted if it is empty.
func (w *storedSchema) copyValue(example bool) bool {
	switch w.Peek() {
	case '"':
		raw, ok := w.Raw()
		w.copyRaw(raw)
		return ok && isCopied(raw) && !(example && len(raw) == 2)
	case 't':
		return w.copyWord("true")
	case 'f':
		return w.copyWord("false")
	case 'n':
		return false
	case '[':
		began := len(w.out)
		return w.Elements(func() bool {
			w.out = append(w.out, ',')
			return w.copyValue(false) || w.copyWord("null")
		}) && w.close('[', ']', began) && !(example && len(w.out)-began == 2)
	case '{':
		began, last, first := len(w.out), "", true
		return w.Members(func(name string) bool {
			if !first && name <= last || !isPlain(name) {
				return false
			}
			w.out = append(append(append(w.out, ',', '"'), name...), '"', ':')
			last, first = name, false
			return w.copyValue(false) || w.copyWord("null")
		}) && w.close('{', '}', began) && !(example && len(w.out)-began == 2)
	}
	return w.copyNumber()
}

// close puts brackets around what was written since began, where a comma precedes each element.
func (w *storedSchema) close(open, end byte, began int) bool {
	if len(w.out) == began {
		w.out = append(w.out, open, end)
		return true
	}
	w.out[began] = open
	w.out = append(w.out, end)
	return true
}

// list writes a list, which must not be empty.
func (w *storedSchema) list(element func() bool) bool {
	began := len(w.out)
	return w.Peek() == '[' && w.Elements(func() bool {
		w.out = append(w.out, ',')
		return element()
	}) && len(w.out) > began && w.close('[', ']', began)
}

// texts writes an object of strings, whose order is given by places.
func (w *storedSchema) texts(places map[string]int) bool {
	began, last := len(w.out), 0
	return w.Peek() == '{' && w.Members(func(name string) bool {
		if places[name] <= last {
			return false
		}
		last = places[name]
		w.out = append(append(append(w.out, ',', '"'), name...), '"', ':')
		if name == "optionalOldSelf" {
			return w.copyWord("true") || w.copyWord("false")
		}
		return w.copyText()
	}) && len(w.out) > began && w.close('{', '}', began)
}

var ruleMembers = map[string]int{"rule": 1, "message": 2, "messageExpression": 3, "reason": 4, "fieldPath": 5, "optionalOldSelf": 6}

// rule writes a CEL rule.
func (w *storedSchema) rule() bool { return w.texts(ruleMembers) }

// readRequired writes the required names; an embedded resource requires apiVersion and kind as well.
func (w *storedSchema) readRequired(n *schemaNode) bool {
	n.required = true
	ok := w.Peek() == '[' && w.Elements(func() bool {
		raw, ok := w.Raw()
		n.requires = append(n.requires, raw)
		return ok && raw[0] == '"' && len(raw) > 2 && isCopied(raw)
	}) && len(n.requires) > 0
	if !ok || w.v2 {
		return ok // reduce will write them
	}
	w.writeNames(n, n.requires)
	return true
}

// writeNames writes the list of an object's required names.
func (w *storedSchema) writeNames(n *schemaNode, names [][]byte) {
	between := byte('[')
	add := func(raw []byte) {
		w.out = append(w.out, between)
		w.copyRaw(raw)
		between = ','
	}
	for _, raw := range names {
		add(raw)
	}
	if n.is != nil && n.is == w.embedded {
		for _, name := range []string{`"kind"`, `"apiVersion"`} {
			if !slices.ContainsFunc(names, func(raw []byte) bool { return string(raw) == name }) {
				add([]byte(name))
			}
		}
	}
	w.out = append(w.out, ']')
}
