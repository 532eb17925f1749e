package transcode

import (
	"iter"
	"unsafe"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// document is a JSON document that is known to have been written compactly. What does not fit makes it bad; it is then
// still walked without harm, but what comes of it is worth nothing.
type document struct {
	data []byte
	// containers are the objects and lists in the order in which they begin: with their ends at hand, nothing is
	// scanned twice however deep it is.
	containers []container
	opened     []int32 // those that have not ended, while they are looked for
	bad        bool
}

type container struct {
	end  int32 // where it ends
	next int32 // the container that begins first after that
}

// value is where a value stands; the zero value is none.
type value struct {
	start, end int32
	container  int32 // the first container that begins at start or after
}

// open takes up a document, an object.
func (d *document) open(data []byte) (whole value, ok bool) {
	d.data, d.bad = data, false
	d.containers, d.opened = d.containers[:0], d.opened[:0]
	if len(data) == 0 || data[0] != '{' || !d.index() || int(d.containers[0].end) != len(data) {
		return value{}, false
	}
	return value{end: int32(len(data))}, true
}

// index finds the containers. It is false when they do not match.
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

// valueAt returns the value that begins at pos, before which all containers up to the given one have begun.
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
		for v.end = pos; literal(d.data[v.end]); { // the document ends with another byte
			v.end++
		}
	}
	if v.end <= v.start {
		d.bad = true
	}
	return v, container
}

// literal: the byte is part of a number, true, false or null.
func literal(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}

// members yields the keys of an object, as they are within the quotes, with their values.
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

// elements yields the elements of a list.
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

// after returns where the value after one within a container begins; more is false when there is none.
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

// view returns the text of a value, which is valid as long as the document is.
func (d *document) view(v value) string {
	text := d.data[v.start:v.end]
	return unsafe.String(unsafe.SliceData(text), len(text))
}

// quoted returns what stands within the quotes of a string.
func (d *document) quoted(v value) ([]byte, bool) {
	if d.data[v.start] != '"' {
		d.bad = true
		return nil, false
	}
	return d.data[v.start+1 : v.end-1], true
}

// text appends what the inner part of a string stands for (RFC 8259, section 7).
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
