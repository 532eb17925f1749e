package transcode

import (
	"iter"
	"unsafe"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// document is a JSON document that should be compact. bad is set where it is not: traversing it remains safe then, but the result is invalid.
type document struct {
	data []byte
	// containers are the objects and arrays in the order of their beginnings. With their ends known, nothing is scanned twice at any depth.
	containers []container
	opened     []int32 // containers without an end yet, during index
	bad        bool
}

type container struct {
	end  int32 // position after its last byte
	next int32 // index of the first container after it
}

// value is the position of a value; the zero value stands for no value.
type value struct {
	start, end int32
	container  int32 // index of the first container at or after start
}

// open starts with a document, which must be an object.
func (d *document) open(data []byte) (whole value, ok bool) {
	d.data, d.bad = data, false
	d.containers, d.opened = d.containers[:0], d.opened[:0]
	if len(data) == 0 || data[0] != '{' || !d.index() || int(d.containers[0].end) != len(data) {
		return value{}, false
	}
	return value{end: int32(len(data))}, true
}

// index finds the containers. It returns false if brackets do not match.
func (d *document) index() bool {
	for i := 0; i < len(d.data); i++ {
		switch d.data[i] {
		case '"':
			if i = jsonscan.EndOfString(d.data, i) - 1; i < 0 {
				return false
			}
		case '{', '[':
			d.opened = append(d.opened, int32(len(d.containers)))
			d.containers = append(d.containers, container{})
		case '}', ']':
			if len(d.opened) == 0 {
				return false
			}
			last := len(d.opened) - 1
			d.containers[d.opened[last]] = container{end: int32(i + 1), next: int32(len(d.containers))}
			d.opened = d.opened[:last]
		}
	}
	return len(d.opened) == 0
}

// valueAt returns the value that begins at pos; container is the index of the first container at or after pos.
func (d *document) valueAt(pos, container int32) (v value, next int32) {
	v = value{start: pos, container: container}
	switch d.data[pos] {
	case '{', '[':
		c := d.containers[container]
		v.end = c.end
		return v, c.next
	case '"':
		v.end = int32(jsonscan.EndOfString(d.data, int(pos)))
	default:
		for v.end = pos; literal(d.data[v.end]); { // the last byte of the document is no literal
			v.end++
		}
	}
	if v.end <= v.start {
		d.bad = true
	}
	return v, container
}

// literal tells whether the byte is part of a number, true, false or null.
func literal(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}

// members yields the keys of an object, without quotes and with escapes, and their values.
func (d *document) members(v value) iter.Seq2[[]byte, value] {
	return func(yield func([]byte, value) bool) {
		if d.bad = d.bad || d.data[v.start] != '{'; d.bad {
			return
		}
		pos, container := v.start+1, v.container+1
		if pos == v.end-1 {
			return
		}
		for {
			if d.data[pos] != '"' {
				d.bad = true
				return
			}
			end := int32(jsonscan.EndOfString(d.data, int(pos)))
			if d.data[end] != ':' {
				d.bad = true
				return
			}
			member, next := d.valueAt(end+1, container)
			if d.bad || !yield(d.data[pos+1:end-1], member) {
				return
			}
			var more bool
			if pos, more = d.after(member, v, '}'); !more {
				return
			}
			container = next
		}
	}
}

// elements yields the elements of an array.
func (d *document) elements(v value) iter.Seq[value] {
	return func(yield func(value) bool) {
		if d.bad = d.bad || d.data[v.start] != '['; d.bad {
			return
		}
		pos, container := v.start+1, v.container+1
		if pos == v.end-1 {
			return
		}
		for {
			element, next := d.valueAt(pos, container)
			if d.bad || !yield(element) {
				return
			}
			var more bool
			if pos, more = d.after(element, v, ']'); !more {
				return
			}
			container = next
		}
	}
}

// after returns the position of the value after v in a container; more is false when there is none.
func (d *document) after(v, within value, last byte) (pos int32, more bool) {
	switch {
	case v.end == within.end-1 && d.data[v.end] == last:
		return 0, false
	case v.end < within.end-2 && d.data[v.end] == ',':
		return v.end + 1, true
	}
	d.bad = true
	return 0, false
}

func (d *document) null(v value) bool { return v.end == 0 || d.data[v.start] == 'n' }

// view returns the text of a value, which is valid as long as the document.
func (d *document) view(v value) string {
	text := d.data[v.start:v.end]
	return unsafe.String(unsafe.SliceData(text), len(text))
}

// quoted returns the text within the quotes of a string.
func (d *document) quoted(v value) ([]byte, bool) {
	if d.data[v.start] != '"' {
		d.bad = true
		return nil, false
	}
	return d.data[v.start+1 : v.end-1], true
}

// text appends the unescaped contents of a string (RFC 8259, section 7).
func (d *document) text(dst, quoted []byte) []byte {
	for {
		i := 0
		for i < len(quoted) && quoted[i] != '\\' {
			i++
		}
		dst = append(dst, quoted[:i]...)
		if i == len(quoted) {
			return dst
		}
		var n int
		if dst, n = jsonscan.AppendEscape(dst, quoted[i:]); n == 0 {
			d.bad = true
			return dst
		}
		quoted = quoted[i+n:]
	}
}
