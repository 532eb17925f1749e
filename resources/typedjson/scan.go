package typedjson

import (
	"unicode/utf8"
	"unsafe"
)

// decoder reads one text. Its methods stand at a value, or at white space before it, and go past it. They return false
// when it is not as expected; where they stand then is of no interest.
type decoder struct {
	data  []byte
	text  string // the same bytes: what is read of them are parts of it
	pos   int
	depth int
}

// maxDepth bounds how deep structs are within each other. Types that contain themselves are rarely deeper than ten.
const maxDepth = 200

func newDecoder(data []byte) decoder {
	return decoder{data: data, text: unsafe.String(unsafe.SliceData(data), len(data))}
}

// peek returns the byte that the next value begins with, or 0 at the end.
func (d *decoder) peek() byte {
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		if c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		d.pos++
	}
	return 0
}

// take goes past a byte if it is the next.
func (d *decoder) take(c byte) bool {
	if d.peek() != c {
		return false
	}
	d.pos++
	return true
}

// word goes past a literal.
func (d *decoder) word(w string) bool {
	d.peek()
	end := d.pos + len(w)
	if end > len(d.data) || d.text[d.pos:end] != w {
		return false
	}
	d.pos = end
	return true
}

func (d *decoder) null() bool { return d.word("null") }

// end reports whether nothing follows.
func (d *decoder) end() bool { return d.peek() == 0 && d.pos == len(d.data) }

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

// string reads a string. Without escape sequences it is a part of the text.
func (d *decoder) string() (string, bool) {
	if !d.take('"') {
		return "", false
	}
	ascii := true
	start := d.pos
	for i := start; i < len(d.data); i++ {
		switch stringBytes[d.data[i]] {
		case plain:
		case quote:
			d.pos = i + 1
			s := d.text[start:i]
			return s, ascii || utf8.ValidString(s)
		case escape:
			return d.escaped(start, i)
		case wide:
			ascii = false
		default:
			return "", false
		}
	}
	return "", false
}

// escaped reads the rest of a string that began at start, and has its first escape sequence at i.
func (d *decoder) escaped(start, i int) (string, bool) {
	length, ok := d.length(i)
	if !ok {
		return "", false
	}
	out := make([]byte, 0, i+length-start) // a sequence is longer than what it stands for
	for last := i + length; i < last; {
		out = append(out, d.text[start:i]...)
		var n int
		if out, n = AppendEscape(out, d.data[i:]); n == 0 {
			return "", false
		}
		start = i + n
		for i = start; i < last && d.data[i] != '\\'; i++ {
		}
	}
	out = append(out, d.text[start:i]...)
	d.pos = i + 1
	return unsafe.String(unsafe.SliceData(out), len(out)), utf8.Valid(out)
}

// length returns how far it is from i, within a string, to the quote that ends it.
func (d *decoder) length(i int) (n int, ok bool) {
	for at := i; at < len(d.data); at++ {
		switch stringBytes[d.data[at]] {
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

// number goes past a number and reports whether it is an integer.
func (d *decoder) number() (text string, integer, ok bool) {
	d.peek()
	start := d.pos
	d.skipByte("-")
	if !d.skipByte("0") && !d.digits() {
		return "", false, false
	}
	integer = true
	if d.skipByte(".") {
		if integer = false; !d.digits() {
			return "", false, false
		}
	}
	if d.skipByte("eE") {
		integer = false
		d.skipByte("+-")
		if !d.digits() {
			return "", false, false
		}
	}
	return d.text[start:d.pos], integer, true
}

// skipByte goes past a byte if it is one of some.
func (d *decoder) skipByte(of string) bool {
	if d.pos == len(d.data) {
		return false
	}
	for i := range len(of) {
		if d.data[d.pos] == of[i] {
			d.pos++
			return true
		}
	}
	return false
}

// digits goes past digits and reports whether there was one.
func (d *decoder) digits() bool {
	start := d.pos
	for d.pos < len(d.data) && '0' <= d.data[d.pos] && d.data[d.pos] <= '9' {
		d.pos++
	}
	return d.pos > start
}

// raw goes past any value and returns its text, white space within included.
func (d *decoder) raw() (data []byte, ok bool) {
	d.peek()
	start := d.pos
	ok = d.skip()
	return d.data[start:d.pos:d.pos], ok
}

// skip goes past any value, which has to be valid.
func (d *decoder) skip() bool {
	switch c := d.peek(); {
	case c == '{':
		return d.members(func(string) bool { return d.skip() })
	case c == '[':
		return d.elements(d.skip)
	case c == '"':
		_, ok := d.string()
		return ok
	case c == 't':
		return d.word("true")
	case c == 'f':
		return d.word("false")
	case c == 'n':
		return d.null()
	}
	_, _, ok := d.number()
	return ok
}

// members calls read for each member of an object, standing at its value.
func (d *decoder) members(read func(key string) bool) bool {
	if !d.take('{') || !d.deeper() {
		return false
	}
	defer d.up()
	if d.take('}') {
		return true
	}
	for {
		key, ok := d.string()
		if !ok || !d.take(':') || !read(key) {
			return false
		}
		if !d.take(',') {
			return d.take('}')
		}
	}
}

// elements calls read for each element of a list, standing at it.
func (d *decoder) elements(read func() bool) bool {
	if !d.take('[') || !d.deeper() {
		return false
	}
	defer d.up()
	if d.take(']') {
		return true
	}
	for {
		if !read() {
			return false
		}
		if !d.take(',') {
			return d.take(']')
		}
	}
}

func (d *decoder) deeper() bool {
	d.depth++
	return d.depth <= maxDepth
}

func (d *decoder) up() { d.depth-- }
