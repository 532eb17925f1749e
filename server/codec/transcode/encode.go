package transcode

import (
	"encoding/base64"
	"reflect"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// encoder converts one JSON document.
type encoder struct {
	document
	values []value // by slot, for the messages being written, the innermost last
	keys   []byte  // the previous keys of the maps being written, the innermost last
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// Append appends the message of a JSON object. If encoding/json would not have written the JSON in this form, ok is false and dst is returned
// unchanged.
func (m *Message) Append(dst, json []byte) (out []byte, ok bool) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	whole, ok := e.open(json)
	if !ok {
		return dst, false
	}
	e.values, e.keys = e.values[:0], e.keys[:0]
	out = e.object(dst, m, whole)
	e.data = nil
	if e.bad {
		return dst, false
	}
	return out, true
}

// object appends the fields of a message: it records the position of each key's value, and then writes the fields in the order of their numbers.
func (e *encoder) object(dst []byte, m *Message, v value) []byte {
	base := len(e.values)
	e.values = append(e.values, m.none...)
	for key, v := range e.members(v) {
		slot, known := m.slots[string(key)]
		if !known {
			continue
		}
		if e.values[base+slot].end != 0 {
			e.bad = true // duplicate key
		}
		e.values[base+slot] = v
	}
	if !e.bad {
		dst = e.fields(dst, m.fields, base)
	}
	e.values = e.values[:base]
	return dst
}

func (e *encoder) fields(dst []byte, fields []field, base int) []byte {
	for i := range fields {
		f := &fields[i]
		if f.inline != nil {
			var start int
			dst, start = begin(dst, f.tag)
			dst = end(e.fields(dst, f.inline, base), start)
			continue
		}
		if f.slot < 0 || e.null(e.values[base+f.slot]) {
			dst = append(dst, f.absent...)
			if f.zeroTime && e.values[base+f.slot].end != 0 {
				dst = append(append(dst, f.tag...), 0)
			}
			continue
		}
		dst = f.append(e, dst, f.tag, e.values[base+f.slot])
	}
	return dst
}

// begin appends a tag and room for a length; end, given the position after it, fills the length in. Most lengths take one byte; for others end
// moves the contents.
func begin(dst, tag []byte) (out []byte, start int) {
	dst = append(append(dst, tag...), 0)
	return dst, len(dst)
}

func end(dst []byte, start int) []byte {
	length := len(dst) - start
	if length < 0x80 {
		dst[start-1] = byte(length)
		return dst
	}
	more := protowire.SizeVarint(uint64(length)) - 1
	for range more {
		dst = append(dst, 0)
	}
	copy(dst[start+more:], dst[start:start+length])
	protowire.AppendVarint(dst[:start-1], uint64(length))
	return dst
}

// message returns a function that appends a length-delimited field, with contents appended by within.
func message(within func(e *encoder, dst []byte, v value) []byte) appendFunc {
	return func(e *encoder, dst, tag []byte, v value) []byte {
		dst, start := begin(dst, tag)
		return end(within(e, dst, v), start)
	}
}

func (e *encoder) message(dst, tag []byte, m *Message, v value) []byte {
	dst, start := begin(dst, tag)
	return end(e.object(dst, m, v), start)
}

func (e *encoder) list(dst, tag []byte, element appendFunc, none []byte, v value) []byte {
	for item := range e.elements(v) {
		if e.null(item) {
			dst = append(append(dst, tag...), none...)
			continue
		}
		dst = element(e, dst, tag, item)
	}
	return dst
}

// mapping appends an entry per key. Both encoding/json and the generated code sort them by key.
func (e *encoder) mapping(dst, tag, valueTag []byte, element appendFunc, none []byte, v value) []byte {
	base, first := len(e.keys), true
	for key, item := range e.members(v) {
		var start, within int
		dst, start = begin(dst, tag)
		dst, within = begin(dst, keyTag)
		dst = e.text(dst, key)
		if !first && string(dst[within:]) <= string(e.keys[base:]) {
			e.bad = true
			return dst
		}
		e.keys, first = append(e.keys[:base], dst[within:]...), false
		dst = end(dst, within)
		if e.null(item) {
			dst = append(dst, none...)
		} else {
			dst = element(e, dst, valueTag, item)
		}
		dst = end(dst, start)
	}
	e.keys = e.keys[:base]
	return dst
}

func (e *encoder) string(dst []byte, v value) []byte {
	text, ok := e.quoted(v)
	if !ok {
		return dst
	}
	return e.text(dst, text)
}

func (e *encoder) bool(dst, tag []byte, v value) []byte {
	dst = append(dst, tag...)
	switch string(e.data[v.start:v.end]) {
	case "true":
		return append(dst, 1)
	case "false":
		return append(dst, 0)
	}
	e.bad = true
	return dst
}

func (e *encoder) int(dst, tag []byte, v value) []byte {
	n, err := strconv.ParseInt(e.view(v), 10, 64)
	if err != nil {
		e.bad = true
	}
	return protowire.AppendVarint(append(dst, tag...), uint64(n)) // negative ones take ten bytes, as in the generated code
}

func (e *encoder) bytes(dst []byte, v value) []byte {
	text, ok := e.quoted(v)
	if !ok {
		return dst
	}
	dst, err := base64.StdEncoding.AppendDecode(dst, text)
	if err != nil {
		e.bad = true
	}
	return dst
}

// raw appends a message whose only field is the JSON itself.
func (e *encoder) raw(dst []byte, v value) []byte {
	return protowire.AppendBytes(append(dst, keyTag...), e.data[v.start:v.end])
}

// quantity appends a message whose only field is the text, which encoding has made canonical.
func (e *encoder) quantity(dst []byte, v value) []byte {
	dst, start := begin(dst, keyTag)
	return end(e.string(dst, v), start)
}

// time appends seconds and nanoseconds: a Timestamp always has both, even that of a Time, which has whole seconds.
func (e *encoder) time(dst []byte, v value) []byte {
	text, ok := e.quoted(v)
	if !ok {
		return dst
	}
	t, err := time.Parse(time.RFC3339Nano, unsafe.String(unsafe.SliceData(text), len(text)))
	if err != nil || t.IsZero() {
		e.bad = true
		return dst
	}
	dst = protowire.AppendTag(dst, 1, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(t.Unix()))
	dst = protowire.AppendTag(dst, 2, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(t.Nanosecond()))
}

var textTag = protowire.AppendTag(nil, 3, protowire.BytesType)

// intOrString appends the type, the number, and the text.
func (e *encoder) intOrString(dst []byte, v value) []byte {
	isText := uint64(0)
	if e.data[v.start] == '"' {
		isText = 1
	}
	dst = protowire.AppendTag(dst, 1, protowire.VarintType)
	dst = protowire.AppendVarint(dst, isText)
	dst = protowire.AppendTag(dst, 2, protowire.VarintType)
	if isText == 1 {
		dst, start := begin(append(dst, 0), textTag)
		return end(e.string(dst, v), start)
	}
	dst = e.int(dst, nil, v)
	return append(append(dst, textTag...), 0)
}

// goValue goes through the Go type, because that has its own UnmarshalJSON.
func goValue(t reflect.Type) appendFunc {
	return message(func(e *encoder, dst []byte, v value) []byte {
		into := reflect.New(t).Interface()
		err := into.(interface{ UnmarshalJSON([]byte) error }).UnmarshalJSON(e.data[v.start:v.end])
		if err != nil {
			e.bad = true
			return dst
		}
		data, err := into.(marshaler).Marshal()
		if err != nil {
			e.bad = true
		}
		return append(dst, data...)
	})
}
