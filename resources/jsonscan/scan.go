package jsonscan

import (
	"unicode/utf8"
	"unsafe"
)

// Scanner reads one text. Its methods stand at a value, or at white space before it, and go past it. They return false
// when it is not as expected; where they stand then is of no interest.
type Scanner struct {
	data  []byte
	text  string // the same bytes: what is read of them are parts of it
	pos   int
	depth int
	// Stored is for readers: what they read was stored, and not sent by a client. See typedjson.DecodeStored.
	Stored bool
}

// maxDepth bounds how deep structs are within each other. Types that contain themselves are rarely deeper than ten.
const maxDepth = 200

// New returns a scanner that stands at the beginning of data, which must not change: the strings it returns are parts of it.
func New(data []byte) Scanner {
	return Scanner{data: data, text: unsafe.String(unsafe.SliceData(data), len(data))}
}

// Peek returns the byte that the next value begins with, or 0 at the end.
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

// At is where the next value begins.
func (s *Scanner) At() int {
	s.Peek()
	return s.pos
}

// Take goes past a byte if it is the next.
func (s *Scanner) Take(c byte) bool {
	if s.Peek() != c {
		return false
	}
	s.pos++
	return true
}

// Word goes past a literal.
func (s *Scanner) Word(w string) bool {
	s.Peek()
	end := s.pos + len(w)
	if end > len(s.data) || s.text[s.pos:end] != w {
		return false
	}
	s.pos = end
	return true
}

// Null goes past null.
func (s *Scanner) Null() bool { return s.Word("null") }

// End reports whether nothing follows.
func (s *Scanner) End() bool { return s.Peek() == 0 && s.pos == len(s.data) }

// What a byte is within a string.
const (
	plain  = iota
	quote  // ends it
	escape // begins an escape sequence
	wide   // is of a character beyond ASCII
	never  // may not be there
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
	out := make([]byte, 0, i+length-start) // a sequence is longer than what it stands for
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

// skipText goes past what Text reads, and makes nothing of it.
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
			return ascii || utf8.ValidString(text) // what stands for an escape sequence is valid, and the sequence is ASCII
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

// length returns how far it is from i, within a string, to the quote that ends it.
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

// Number goes past a number and reports whether it is an integer.
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

// Raw goes past any value and returns its text, white space within included.
func (s *Scanner) Raw() (data []byte, ok bool) {
	s.Peek()
	start := s.pos
	ok = s.Skip()
	return s.data[start:s.pos:s.pos], ok
}

// Unread goes past a value that this server wrote, and returns its text: what is in it is not looked at.
func (s *Scanner) Unread() (text string, ok bool) {
	start := s.At()
	end := EndOfValue(s.text, start)
	s.pos = max(start, end)
	return s.text[start:s.pos], end > start
}

// Skip goes past any value, which has to be valid.
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

// Members calls read for each member of an object, standing at its value.
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

// Elements calls read for each element of a list, standing at it.
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

// Deeper counts a value within another, and reports whether that is not too deep. Up is its end.
func (s *Scanner) Deeper() bool {
	s.depth++
	return s.depth <= maxDepth
}

// Up is the end of a value that Deeper counted.
func (s *Scanner) Up() { s.depth-- }
