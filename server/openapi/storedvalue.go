package openapi

import (
	"bytes"
	"strings"
)

// What follows reads values of a stored schema that are written as they stand: upstream would read them and write the same.

// copyText copies a text, which is not empty.
func (w *storedSchema) copyText() bool {
	if w.Peek() != '"' {
		return false
	}
	raw, ok := w.Raw()
	w.out = append(w.out, raw...)
	return ok && len(raw) > 2 && isCopied(raw)
}

// isCopied tells whether a text has no escapes but those that upstream writes, too, of which it has several forms for other characters.
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

// isPlain tells whether a name is written as it is, and sorted alike by whoever sorts names.
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

// copyNumber copies a number of few digits, which is written in one way only.
func (w *storedSchema) copyNumber() bool {
	text, _, ok := w.Number()
	w.out = append(w.out, text...)
	return ok && isShort(text)
}

// isShort tells whether a number is written without an exponent and with no more digits than a float64 tells apart.
func isShort(number string) bool {
	whole, fraction, fractional := strings.Cut(strings.TrimPrefix(number, "-"), ".")
	if len(whole)+len(fraction) > 15 || strings.ContainsAny(number, "eE") || number == "-0" {
		return false
	}
	return !fractional || !strings.HasSuffix(fraction, "0") && !(whole == "0" && strings.HasPrefix(fraction, "00000"))
}

// copyValue copies any value: a default, or an example, which is left out where it is empty.
func (w *storedSchema) copyValue(example bool) bool {
	switch w.Peek() {
	case '"':
		raw, ok := w.Raw()
		w.out = append(w.out, raw...)
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

// close puts brackets around what was written since it began, with a comma before each.
func (w *storedSchema) close(open, end byte, began int) bool {
	if len(w.out) == began {
		w.out = append(w.out, open, end)
		return true
	}
	w.out[began] = open
	w.out = append(w.out, end)
	return true
}

// list writes a list that is not empty.
func (w *storedSchema) list(element func() bool) bool {
	began := len(w.out)
	return w.Peek() == '[' && w.Elements(func() bool {
		w.out = append(w.out, ',')
		return element()
	}) && len(w.out) > began && w.close('[', ']', began)
}

// texts writes an object of texts, which are in the order of their places.
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

// rule writes a rule in CEL.
func (w *storedSchema) rule() bool { return w.texts(ruleMembers) }
