package typedjson

import (
	"encoding/json"
	"reflect"
	"strconv"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rowlock/rowlock/resources/jsonscan"
	"github.com/rowlock/rowlock/resources/upstream"
)

// leaves are types with their own MarshalJSON that occur in nearly every object. Their encodings are implemented here.
var leaves = map[reflect.Type]writer{
	reflect.TypeFor[metav1.Time]():        appendTime,
	reflect.TypeFor[metav1.MicroTime]():   appendMicroTime,
	reflect.TypeFor[resource.Quantity]():  appendQuantity,
	reflect.TypeFor[intstr.IntOrString](): appendIntOrString,
}

func appendTime(_ *encoder, dst []byte, p unsafe.Pointer) []byte {
	return appendTimeAs(dst, (*metav1.Time)(p).Time, time.RFC3339)
}

func appendMicroTime(_ *encoder, dst []byte, p unsafe.Pointer) []byte {
	return appendTimeAs(dst, (*metav1.MicroTime)(p).Time, metav1.RFC3339Micro)
}

func appendTimeAs(dst []byte, t time.Time, layout string) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, layout)
	return append(dst, '"')
}

var quantityText, quantityTextKnown = upstream.QuantityText()

func appendQuantity(e *encoder, dst []byte, p unsafe.Pointer) []byte {
	if !quantityTextKnown {
		return e.appendMarshaler(dst, (*resource.Quantity)(p))
	}
	dst = append(dst, '"')
	if text := *(*string)(unsafe.Add(p, quantityText)); text != "" {
		dst = append(dst, text...)
	} else {
		// Not String, which would cache the text in an object that others may be reading.
		number, suffix := (*resource.Quantity)(p).CanonicalizeBytes(e.number[:0])
		dst = append(append(dst, number...), suffix...)
	}
	return append(dst, '"')
}

func appendIntOrString(e *encoder, dst []byte, p unsafe.Pointer) []byte {
	switch v := (*intstr.IntOrString)(p); v.Type {
	case intstr.Int:
		return strconv.AppendInt(dst, int64(v.IntVal), 10)
	case intstr.String:
		return appendString(dst, v.StrVal)
	}
	e.failed = true
	return dst
}

// appendMarshaler writes a value of any other type with its own MarshalJSON.
func (e *encoder) appendMarshaler(dst []byte, m json.Marshaler) []byte {
	text, err := m.MarshalJSON()
	if err != nil || len(text) == 0 {
		e.failed = true
		return dst
	}
	return e.appendRaw(dst, text)
}

// appendRaw writes JSON from clients: without white space, and escaped for HTML, unless it is to stay unchanged. Most of it has
// that form already.
func (e *encoder) appendRaw(dst, raw []byte) []byte {
	if jsonscan.Plain(raw, maxNesting) {
		return append(dst, raw...)
	}
	if e.stored && json.Valid(raw) {
		e.asSent = true
		return append(dst, raw...)
	}
	text, err := json.Marshal(json.RawMessage(raw))
	if err != nil {
		e.failed = true
		return dst
	}
	return append(dst, text...)
}
