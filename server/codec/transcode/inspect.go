package transcode

import (
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rowlock/rowlock/resources/gotype"
)

// deepest bounds the nesting of messages that Inspect looks into. Types with quantities are nested less deeply.
const deepest = 100

// lengthy are the types of the fields of a struct that are strings, bytes or messages in protobuf, by number.
var lengthy gotype.Memo[map[protowire.Number]reflect.Type]

// Inspect looks into a protobuf message of a Go type, as far as it can be read, without decoding it. It returns the number of elements of all lists,
// and calls quantity with the text of each resource.Quantity.
func Inspect(t reflect.Type, message []byte, quantity func(text string)) (elements int) {
	i := inspector{quantity: quantity}
	i.message(t, message, deepest)
	return i.elements
}

type inspector struct {
	elements int
	quantity func(text string)
}

func (i *inspector) message(t reflect.Type, message []byte, depth int) {
	if depth == 0 {
		return
	}
	types := lengthy.Of(t, lengthyFields)
	eachField(message, func(number protowire.Number, value []byte) {
		f := types[number]
		if f == nil {
			return
		}
		switch f.Kind() {
		case reflect.Slice:
			i.elements++
			f = f.Elem()
		case reflect.Map: // of entries, which are messages of a key and a value
			of := f.Elem()
			eachField(value, func(number protowire.Number, value []byte) {
				if number == 2 {
					i.value(of, value, depth-1)
				}
			})
			return
		}
		i.value(f, value, depth-1)
	})
}

func (i *inspector) value(t reflect.Type, value []byte, depth int) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		eachField(value, func(number protowire.Number, text []byte) {
			if number == 1 {
				i.quantity(string(text))
			}
		})
	case t.Kind() == reflect.Struct:
		i.message(t, value, depth)
	}
}

// eachField calls yield with the fields of a message that are strings, bytes or messages.
func eachField(message []byte, yield func(protowire.Number, []byte)) {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(number, kind, message); size < 0 {
			return
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			yield(number, value)
		}
		message = message[size:]
	}
}

func lengthyFields(t reflect.Type) map[protowire.Number]reflect.Type {
	types := map[protowire.Number]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		number, err := fieldNumber(f)
		bytes := f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Uint8
		if err == nil && number != 0 && !bytes {
			types[number] = f.Type
		}
	}
	return types
}
