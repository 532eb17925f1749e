package jsonscan

import (
	"slices"
	"strings"
)

// Index is JSON without white space, as this server stores it, with the ends of all objects and lists. It is for readers of a part of
// a large text, or of a value's content after the text behind it. It is immutable.
type Index struct {
	text string
	// begins are the positions at which objects and lists begin, in order, and ends the positions of their ends.
	begins, ends []int32
}

// NewIndex finds the ends of objects and lists. ok is false where brackets do not match, and where there is white space. Other errors
// in a text, which should not occur, are found by its readers, or not at all.
func NewIndex(s string) (t *Index, ok bool) {
	t = &Index{text: s}
	var open []int32 // their indexes in begins
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			end := EndOfString(s, i)
			if end == 0 {
				return nil, false
			}
			i = end - 1
		case '{', '[':
			open = append(open, int32(len(t.begins)))
			t.begins, t.ends = append(t.begins, int32(i)), append(t.ends, 0)
		case '}', ']':
			if len(open) == 0 {
				return nil, false
			}
			t.ends[open[len(open)-1]] = int32(i) + 1
			open = open[:len(open)-1]
		case ' ', '\n', '\r', '\t':
			return nil, false
		}
	}
	return t, len(open) == 0
}

// Span is a value in a text.
type Span struct{ from, to int }

// Has reports whether a position in the text is within the value.
func (s Span) Has(at int) bool { return s.from <= at && at < s.to }

// From is the position at which the value begins.
func (s Span) From() int { return s.from }

// IsNone reports whether there is no value.
func (s Span) IsNone() bool { return s.to == s.from }

// Of is the text of a value, which shares memory with the whole.
func (t *Index) Of(s Span) string { return t.text[s.from:s.to] }

// ValueAt is the value that begins at a position; it is empty if none does.
func (t *Index) ValueAt(at int) Span { return t.value(at) }

// Whole is the value of the whole text. If the text is not one value, nothing can be read.
func (t *Index) Whole() Span {
	if s := t.value(0); s.to == len(t.text) {
		return s
	}
	return Span{}
}

// IsWhole reports whether a value is the whole text.
func (t *Index) IsWhole(s Span) bool { return s.from == 0 && s.to == len(t.text) }

// value is the value that begins at a position; it is empty if none does.
func (t *Index) value(at int) Span {
	if at >= len(t.text) {
		return Span{}
	}
	switch t.text[at] {
	case '"':
		return Span{at, max(at, EndOfString(t.text, at))}
	case '{', '[':
		if i, found := slices.BinarySearch(t.begins, int32(at)); found {
			return Span{at, int(t.ends[i])}
		}
		return Span{}
	}
	length := strings.IndexAny(t.text[at:], ",}]")
	if length < 0 {
		length = len(t.text) - at
	}
	return Span{at, at + length}
}

// next moves from a value to the following one, or to the end. ok is false where there is neither.
func (t *Index) next(s Span, end byte) (at int, more, ok bool) {
	if s.to <= s.from || s.to >= len(t.text) {
		return 0, false, false
	}
	switch t.text[s.to] {
	case ',':
		return s.to + 1, true, true
	case end:
		return 0, false, true
	}
	return 0, false, false
}

// Members visits the members of an object. It returns false where read does, where the value is not an object, and where a name has
// escapes.
func (t *Index) Members(object Span, read func(name string, v Span) bool) bool {
	if object.to-object.from < 2 || t.text[object.from] != '{' {
		return false
	}
	if object.to-object.from == 2 {
		return true
	}
	at, more := object.from+1, true
	for more {
		name := t.value(at)
		if name.to-name.from < 2 || t.text[name.from] != '"' || name.to >= object.to || t.text[name.to] != ':' {
			return false
		}
		key, v := t.text[name.from+1:name.to-1], t.value(name.to+1)
		if strings.IndexByte(key, '\\') >= 0 || v.to <= v.from || !read(key, v) {
			return false
		}
		var ok bool
		if at, more, ok = t.next(v, '}'); !ok {
			return false
		}
	}
	return true
}

// Elements visits the elements of a list. It returns false where read does, and where the value is not a list.
func (t *Index) Elements(list Span, read func(v Span) bool) bool {
	if list.to-list.from < 2 || t.text[list.from] != '[' {
		return false
	}
	if list.to-list.from == 2 {
		return true
	}
	at, more := list.from+1, true
	for more {
		v := t.value(at)
		if v.to <= v.from || !read(v) {
			return false
		}
		var ok bool
		if at, more, ok = t.next(v, ']'); !ok {
			return false
		}
	}
	return true
}
