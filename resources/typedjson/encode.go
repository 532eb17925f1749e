package typedjson

import (
	"encoding/base64"
	"math"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"unicode/utf8"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Append appends the JSON of obj, a pointer to a struct or an object without a Go type, as encoding/json.Marshal writes it. ok is false when the type
// or the content of obj is not covered; dst is then returned unchanged.
func Append(dst []byte, obj any) (out []byte, ok bool) {
	if !fastpath.JSONEncode.On() {
		return dst, false
	}
	if out, _, ok = appendObject(dst, obj, false); !ok {
		fastpath.JSONEncode.Fallback()
	}
	return out, ok
}

// AppendStored is like Append, but leaves JSON from clients (json.RawMessage, runtime.RawExtension) unchanged, with its white space and its
// characters. asSent reports whether there is any that Append would write differently. Since no other package leaves it unchanged, this one writes
// such an object even where the fast path is off.
func AppendStored(dst []byte, obj any) (out []byte, asSent, ok bool) {
	out, asSent, ok = appendObject(dst, obj, true)
	switch {
	case !fastpath.JSONEncode.On() && !asSent:
		return dst, false, false
	case !ok:
		fastpath.JSONEncode.Fallback()
	}
	return out, asSent, ok
}

func appendObject(dst []byte, obj any, stored bool) (out []byte, asSent, ok bool) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Type().Elem().Kind() != reflect.Struct {
		return dst, false, false
	}
	e := encoders.Get().(*encoder)
	e.stored = stored
	if u, is := obj.(*unstructured.Unstructured); is {
		out = e.appendObjectMap(dst, u.Object)
	} else if p := encodingOf(v.Type().Elem()); p.err == nil {
		out = p.write(e, dst, v.UnsafePointer())
	} else {
		e.failed = true
	}
	runtime.KeepAlive(obj)
	ok, asSent = !e.failed, e.asSent
	*e = encoder{}
	encoders.Put(e)
	if !ok {
		return dst, false, false
	}
	return out, asSent, true
}

// encoder is the state of the writers of one object, and their scratch space, which would be on the heap otherwise.
type encoder struct {
	failed   bool // the object has a part that is not covered, and the output is discarded
	stored   bool // JSON from clients is left unchanged
	asSent   bool // encoding/json would have changed some of it
	depth    int  // the nesting of values in values of their own type
	quantity resource.Quantity
	number   [32]byte
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// maxNesting bounds the nesting of a type in itself. A deeper value may be cyclic, which encoding/json checks.
const maxNesting = 100

// appendAgain writes a value of a recursive type.
func (e *encoder) appendAgain(dst []byte, p unsafe.Pointer, w writer) []byte {
	if e.depth++; e.depth > maxNesting {
		e.failed = true
	}
	if !e.failed {
		dst = w(e, dst, p)
	}
	e.depth--
	return dst
}

// structField is a field of a struct for writing.
type structField struct {
	key    string // with its quotes, a comma before it and a colon behind
	offset uintptr
	omit   func(p unsafe.Pointer) bool // reports whether a value is omitted; nil when none is
	write  writer
}

func (e *encoder) appendStruct(dst []byte, p unsafe.Pointer, fields []structField) []byte {
	start := len(dst)
	for i := range fields {
		f := &fields[i]
		value := unsafe.Add(p, f.offset)
		if f.omit != nil && f.omit(value) {
			continue
		}
		dst = append(dst, f.key...)
		dst = f.write(e, dst, value)
	}
	if len(dst) == start {
		return append(dst, "{}"...)
	}
	dst[start] = '{' // for the first comma
	return append(dst, '}')
}

// appendList writes a slice whose elements have the given size. It is read as a []byte only for its address and its length, which counts elements.
func (e *encoder) appendList(dst []byte, p unsafe.Pointer, size uintptr, w writer) []byte {
	list := *(*[]byte)(p)
	if list == nil {
		return append(dst, "null"...)
	}
	base := unsafe.Pointer(unsafe.SliceData(list))
	dst = append(dst, '[')
	for i := range len(list) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = w(e, dst, unsafe.Add(base, uintptr(i)*size))
	}
	return append(dst, ']')
}

func appendBytes(_ *encoder, dst []byte, p unsafe.Pointer) []byte {
	data := *(*[]byte)(p)
	if data == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

func appendBool(_ *encoder, dst []byte, p unsafe.Pointer) []byte {
	return strconv.AppendBool(dst, *(*bool)(p))
}

func appendInt[T int | int8 | int16 | int32 | int64](_ *encoder, dst []byte, p unsafe.Pointer) []byte {
	return strconv.AppendInt(dst, int64(*(*T)(p)), 10)
}

func appendUint[T uint | uint8 | uint16 | uint32 | uint64](_ *encoder, dst []byte, p unsafe.Pointer) []byte {
	return strconv.AppendUint(dst, uint64(*(*T)(p)), 10)
}

func appendFloat32(e *encoder, dst []byte, p unsafe.Pointer) []byte {
	f := *(*float32)(p)
	size := max(f, -f)
	return e.appendFloat(dst, float64(f), 32, size != 0 && (size < 1e-6 || size >= 1e21))
}

func appendFloat64(e *encoder, dst []byte, p unsafe.Pointer) []byte {
	f := *(*float64)(p)
	size := max(f, -f)
	return e.appendFloat(dst, f, 64, size != 0 && (size < 1e-6 || size >= 1e21))
}

// appendFloat writes a number as ECMAScript does: in digits, or with an exponent without leading zeros.
func (e *encoder) appendFloat(dst []byte, f float64, bits int, exponent bool) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		e.failed = true
		return dst
	}
	if !exponent {
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	if n := len(dst); string(dst[n-3:n-1]) == "-0" { // as in 1e-07; there is no 1e+07 here
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}

func appendStringAt(_ *encoder, dst []byte, p unsafe.Pointer) []byte {
	return appendString(dst, *(*string)(p))
}

// AppendString writes a string, with its quotes, as encoding/json does: escaped for HTML, too.
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		n := 0
		for n < len(s) && jsonscan.Unescaped[s[n]] {
			n++
		}
		dst = append(dst, s[:n]...)
		if s = s[n:]; s == "" {
			return append(dst, '"')
		}
		r, size := utf8.DecodeRuneInString(s)
		dst = appendRune(dst, r, s[:size])
		s = s[size:]
	}
}

const hexDigits = "0123456789abcdef"

// appendRune writes any other character, whose text is s.
func appendRune(dst []byte, r rune, s string) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r == '\b':
		return append(dst, `\b`...)
	case r == '\f':
		return append(dst, `\f`...)
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r == '\t':
		return append(dst, `\t`...)
	case r < utf8.RuneSelf, r == '\u2028', r == '\u2029', r == utf8.RuneError && len(s) == 1:
		return append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
	}
	return append(dst, s...)
}
