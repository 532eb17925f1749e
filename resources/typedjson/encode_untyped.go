package typedjson

import (
	"strconv"
	"unsafe"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// maxUntyped bounds the nesting of values without Go types. A deeper value may be cyclic.
const maxUntyped = 1000

// AppendList is Append for a list of values that an object without a Go type may have.
func AppendList(dst []byte, list []any) (out []byte, ok bool) {
	if !fastpath.JSONEncode.On() {
		return dst, false
	}
	e := encoders.Get().(*encoder)
	out = e.appendUntypedList(dst, list)
	ok = !e.failed
	*e = encoder{}
	encoders.Put(e)
	if !ok {
		fastpath.JSONEncode.Fallback()
		return dst, false
	}
	return out, true
}

// appendObjectMap writes the content of an object without a Go type: values that JSON is decoded to, and no others.
func (e *encoder) appendObjectMap(dst []byte, m map[string]any) []byte {
	if m == nil {
		return append(dst, "null"...)
	}
	var room [usualKeys]string
	dst = append(dst, '{')
	for i, key := range sortedKeys(m, room[:0]) {
		dst = appendKey(dst, i, key)
		dst = e.appendUntyped(dst, m[key])
	}
	return append(dst, '}')
}

func (e *encoder) appendUntyped(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return appendString(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		if v == 0 && e.stored { // when read back, -0 is a whole number, which has no sign
			return append(dst, '0')
		}
		return appendFloat64(e, dst, unsafe.Pointer(&v))
	}
	if e.depth++; e.depth > maxUntyped {
		e.failed = true
	}
	if !e.failed {
		switch v := v.(type) {
		case map[string]any:
			dst = e.appendObjectMap(dst, v)
		case []any:
			dst = e.appendUntypedList(dst, v)
		default:
			e.failed = true
		}
	}
	e.depth--
	return dst
}

func (e *encoder) appendUntypedList(dst []byte, list []any) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.appendUntyped(dst, v)
	}
	return append(dst, ']')
}
