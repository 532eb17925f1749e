package jsonscan

import (
	"unicode/utf8"
	"unsafe"
)

// Scanner reads one text. Its methods expect a value, or white space before it, and move past it. They return false when the
// value is not as expected; the position is then undefined.
type Scanner struct {
	data  []byte
	text  string // the same bytes: results share them
	pos   int
	depth int
	// listed is the number of elements of all lists so far.
	listed int
	// Stored is for readers: the text was stored, and not sent by a client. See typedjson.DecodeStored.
	Stored bool
}

// maxDepth bounds the nesting of structs. Recursive types are rarely nested deeper than ten.
const maxDepth = 200

// MostElements bounds the elements of all lists in the text of an object with a Go type. An empty element is three bytes of JSON, up to a kilobyte of
// memory, and several errors of validation: a million of them, which fit into a request, took 2 GB.
const MostElements = 100_000

// List counts an element of a list. It returns false if there are too many.
func (s *Scanner) List() bool {
	s.listed++
	return s.listed <= MostElements
}

// New returns a scanner at the beginning of data, which must not change: the strings it returns share its memory.
func New(data []byte) Scanner {
	return Scanner{data: data, text: unsafe.String(unsafe.SliceData(data), len(data))}
}

// Peek returns the first byte of the next value, or 0 at the end.
func (s *Scanner) Peek() byte {
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		s.pos++
	}
	return 0
}

// At is the position of the next value.
func (s *Scanner) At() int {
	s.Peek()
	return s.pos
}

// Take skips a byte if it is the next.
func (s *Scanner) Take(c byte) bool {
	if s.Peek() != c {
		return false
	}
	s.pos++
	return true
}

// Word skips a literal.
func (s *Scanner) Word(w string) bool {
	s.Peek()
	end := s.pos + len(w)
	if end > len(s.data) || s.text[s.pos:end] != w {
		return false
	}
	s.pos = end
	return true
}

// Null skips null.
func (s *Scanner) Null() bool { return s.Word("null") }

// End reports whether nothing follows.
func (s *Scanner) End() bool { return s.Peek() == 0 && s.pos == len(s.data) }

// The classes of bytes within a string.
const (
	plain  = iota
	quote  // ends it
	escape // begins an escape sequence
	wide   // part of a character beyond ASCII
	never  // not allowed
)

var stringBytes = func() (kinds [256]uint8) {
	for c := range kinds {
		switch {
		case c < ' ':
			kinds[c] = never
		case c >= utf8.RuneSelf:
			kinds[c] = wide
		}
	}
	kinds['"'], kinds['\\'] = quote, escape
	return kinds
}()

// Text reads a string. Without escape sequences it is a part of the text.
func (s *Scanner) Text() (string, bool) {
	if !s.Take('"') {
		return "", false
	}
	ascii := true
	start := s.pos
	for i := start; i < len(s.data); i++ {
		if i += PrintableLength(s.data[i:]); i == len(s.data) {
			return "", false
		}
		switch stringBytes[s.data[i]] {
		case plain:
		case quote:
			s.pos = i + 1
			text := s.text[start:i]
			return text, ascii || utf8.ValidString(text)
		case escape:
			return s.escaped(start, i)
		case wide:
			ascii = false
		default:
			return "", false
		}
	}
	return "", false
}

// escaped reads the rest of a string that began at start, and has its first escape sequence at i.
func (s *Scanner) escaped(start, i int) (string, bool) {
	length, ok := s.length(i)
	if !ok {
		return "", false
	}
	out := make([]byte, 0, i+length-start) // a sequence is longer than its character
	for last := i + length; i < last; {
		out = append(out, s.text[start:i]...)
		var n int
		if out, n = AppendEscape(out, s.data[i:]); n == 0 {
			return "", false
		}
		start = i + n
		for i = start; i < last && s.data[i] != '\\'; i++ {
		}
	}
	out = append(out, s.text[start:i]...)
	s.pos = i + 1
	return unsafe.String(unsafe.SliceData(out), len(out)), utf8.Valid(out)
}

// skipText skips what Text reads, without making a string.
func (s *Scanner) skipText() bool {
	s.pos++
	ascii := true
	for i := s.pos; i < len(s.data); i++ {
		if i += PrintableLength(s.data[i:]); i == len(s.data) {
			return false
		}
		switch stringBytes[s.data[i]] {
		case plain:
		case quote:
			text := s.text[s.pos:i]
			s.pos = i + 1
			return ascii || utf8.ValidString(text) // the character of an escape sequence is valid, and the sequence is ASCII
		case escape:
			var room [utf8.UTFMax]byte
			_, n := AppendEscape(room[:0], s.data[i:])
			if n == 0 {
				return false
			}
			i += n - 1
		case wide:
			ascii = false
		default:
			return false
		}
	}
	return false
}

// length returns the distance from i, within a string, to the quote that ends it.
func (s *Scanner) length(i int) (n int, ok bool) {
	for at := i; at < len(s.data); at++ {
		switch stringBytes[s.data[at]] {
		case quote:
			return at - i, true
		case escape:
			at++
		case never:
			return 0, false
		}
	}
	return 0, false
}

// Number skips a number and reports whether it is an integer.
func (s *Scanner) Number() (text string, integer, ok bool) {
	s.Peek()
	start := s.pos
	end, integer := number(s.data, start)
	if end == nowhere {
		return "", false, false
	}
	s.pos = end
	return s.text[start:end], integer, true
}

// Raw skips any value and returns its text, including white space in it.
func (s *Scanner) Raw() (data []byte, ok bool) {
	s.Peek()
	start := s.pos
	ok = s.Skip()
	return s.data[start:s.pos:s.pos], ok
}

// Unread skips a value that this server wrote, and returns its text without checking it.
func (s *Scanner) Unread() (text string, ok bool) {
	start := s.At()
	end := EndOfValue(s.text, start)
	s.pos = max(start, end)
	return s.text[start:s.pos], end > start
}

// Skip skips any value, which has to be valid.
func (s *Scanner) Skip() bool {
	switch c := s.Peek(); {
	case c == '{':
		return s.Members(func(string) bool { return s.Skip() })
	case c == '[':
		return s.Elements(s.Skip)
	case c == '"':
		return s.skipText()
	case c == 't':
		return s.Word("true")
	case c == 'f':
		return s.Word("false")
	case c == 'n':
		return s.Null()
	}
	_, _, ok := s.Number()
	return ok
}

// Members calls read for each member of an object, at its value.
func (s *Scanner) Members(read func(key string) bool) bool {
	if !s.Take('{') || !s.Deeper() {
		return false
	}
	defer s.Up()
	if s.Take('}') {
		return true
	}
	for {
		key, ok := s.Text()
		if !ok || !s.Take(':') || !read(key) {
			return false
		}
		if !s.Take(',') {
			return s.Take('}')
		}
	}
}

// Elements calls read for each element of a list, at the element.
func (s *Scanner) Elements(read func() bool) bool {
	if !s.Take('[') || !s.Deeper() {
		return false
	}
	defer s.Up()
	if s.Take(']') {
		return true
	}
	for {
		if !read() {
			return false
		}
		if !s.Take(',') {
			return s.Take(']')
		}
	}
}

// Deeper counts a nested value, and reports whether the nesting is allowed. Up ends it.
func (s *Scanner) Deeper() bool {
	s.depth++
	return s.depth <= maxDepth
}

// Up ends a value that Deeper counted.
func (s *Scanner) Up() { s.depth-- }
