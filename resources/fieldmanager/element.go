package fieldmanager

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
)

// element is one element of a path in the form that FieldsV1 gives it, without the quotes around it: f:name for a
// field, k:{\"name\":\"a\"} for an item of a list with keys, v:\"a\" for a member of a set of scalars. (i:0, a
// position, does not occur: lists that are indexed are leaves.) Strings in it never need an escape of their own and
// numbers are integers of at most maxDigits digits, so equal elements are equal strings; upstream's manager handles all
// other elements that a client may send.
type element = string

// maxDigits keeps numbers exact for readers that use a float64.
const maxDigits = 15

// compareElements is the order of elements in FieldsV1: fields by name, then items by their keys, then members of sets.
func compareElements(a, b element) int {
	if a == b {
		return 0
	}
	if a[0] != b[0] || a[0] == 'f' {
		return strings.Compare(a, b)
	}
	if a[0] == 'v' {
		x, _ := readScalar(a[2:])
		y, _ := readScalar(b[2:])
		return compareScalars(x, y)
	}
	a, b = a[3:], b[3:] // k:{
	for {
		an, ar, aok := readKey(a)
		bn, br, bok := readKey(b)
		switch {
		case !aok && !bok:
			return 0
		case !aok:
			return -1
		case !bok:
			return 1
		}
		if c := strings.Compare(an, bn); c != 0 {
			return c
		}
		x, ar := readScalar(ar)
		y, br := readScalar(br)
		if c := compareScalars(x, y); c != 0 {
			return c
		}
		a, b = strings.TrimPrefix(ar, ","), strings.TrimPrefix(br, ",")
	}
}

// readKey reads the name of the next key of an item, up to and including the colon.
func readKey(s string) (name, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, `\"`)
	if !ok {
		return "", s, false
	}
	return strings.Cut(s, `\":`)
}

// scalar is the value of a key or of a member of a set, as text.
type scalar struct {
	rank byte // the order of types: numbers, strings, booleans
	text string
}

// readScalar reads a value that is known to be well formed.
func readScalar(s string) (scalar, string) {
	if t, ok := strings.CutPrefix(s, `\"`); ok {
		text, rest, _ := strings.Cut(t, `\"`)
		return scalar{1, text}, rest
	}
	end := strings.IndexAny(s, ",}")
	if end < 0 {
		end = len(s)
	}
	rank := byte(0)
	if s[0] == 't' || s[0] == 'f' {
		rank = 2
	}
	return scalar{rank, s[:end]}, s[end:]
}

func compareScalars(a, b scalar) int {
	if a.rank != b.rank || a.rank != 0 {
		return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.text, b.text))
	}
	x, _ := strconv.ParseInt(a.text, 10, 64)
	y, _ := strconv.ParseInt(b.text, 10, 64)
	return cmp.Compare(x, y)
}

// validElement reports whether s is an element in the form described above.
func validElement(s string) bool {
	if len(s) < 3 || s[1] != ':' {
		return len(s) == 2 && s == "f:"
	}
	switch s[0] {
	case 'f':
		return plainName(s[2:])
	case 'v':
		rest, ok := skipScalar(s[2:])
		return ok && rest == ""
	case 'k':
		return validKeys(s[2:])
	}
	return false
}

func validKeys(s string) bool {
	s, ok := strings.CutPrefix(s, "{")
	for last := ""; ok; {
		name, rest, found := readKey(s)
		if !found || !plainValue(name) || name <= last {
			return false
		}
		last = name
		if s, ok = skipScalar(rest); !ok {
			return false
		}
		if s == "}" {
			return true
		}
		s, ok = strings.CutPrefix(s, ",")
	}
	return false
}

// skipScalar checks a value and returns the rest behind it.
func skipScalar(s string) (string, bool) {
	if t, ok := strings.CutPrefix(s, `\"`); ok {
		text, rest, ok := strings.Cut(t, `\"`)
		return rest, ok && plainValue(text)
	}
	for _, word := range []string{"true", "false"} {
		if rest, ok := strings.CutPrefix(s, word); ok {
			return rest, true
		}
	}
	digits := strings.TrimPrefix(s, "-")
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	zero := n > 0 && digits[0] == '0'
	if n == 0 || n > maxDigits || zero && (n > 1 || len(digits) < len(s)) {
		return s, false
	}
	return digits[n:], true
}

// plainName reports whether a field's name is written unchanged: JSON escapes no part of it.
func plainName(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// plainValue is plainName for the values of keys, which are JSON inside a JSON string and also escape HTML.
func plainValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// appendElement appends the element of an item of a keyed list or a set. ok is false where the item has none, or one
// that is not covered.
func (p *typedNode) appendElement(b []byte, v reflect.Value) ([]byte, bool) {
	v, present := open(v)
	if present != there {
		return b, false
	}
	if p.shape == scalarSet {
		return appendScalar(append(b, "v:"...), v)
	}
	b = append(b, "k:{"...)
	empty := len(b)
	for i := range p.keys {
		k := &p.keys[i]
		var x reflect.Value
		if k.field != nil {
			if x = k.field.of(v); k.field.omit != nil && k.field.omit(x) {
				x = reflect.Value{}
			}
		}
		if !x.IsValid() && k.fallback == "" {
			continue
		}
		if len(b) > empty {
			b = append(b, ',')
		}
		b = append(append(append(b, `\"`...), k.name...), `\":`...)
		if !x.IsValid() {
			b = append(b, k.fallback...)
			continue
		}
		var ok bool
		if b, ok = appendScalar(b, x); !ok {
			return b, false
		}
	}
	return append(b, '}'), len(b) > empty
}

// appendScalar appends a value in the form that it has in an element.
func appendScalar(b []byte, v reflect.Value) ([]byte, bool) {
	v, present := open(v)
	if present != there || marshals(v.Type()) {
		return b, false
	}
	switch v.Kind() {
	case reflect.String:
		return appendString(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return appendInt(b, v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return appendInt(b, int64(v.Uint()))
	}
	return b, false
}

func appendString(b []byte, s string) ([]byte, bool) {
	if !plainValue(s) {
		return b, false
	}
	return append(append(append(b, `\"`...), s...), `\"`...), true
}

func appendInt(b []byte, i int64) ([]byte, bool) {
	const limit = 1e15 // maxDigits
	return strconv.AppendInt(b, i, 10), -limit < i && i < limit
}

// serializeDefault is appendScalar for a default of the schema; no default is the empty string.
func serializeDefault(def any) (string, bool) {
	if def == nil {
		return "", true
	}
	if f, ok := def.(float64); ok && f == float64(int64(f)) {
		def = int64(f)
	}
	b, ok := appendScalar(nil, reflect.ValueOf(def))
	return string(b), ok
}
