package custom

import (
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"reflect"
	"slices"
	"strings"
)

// writeValue hashes a value so that no other value of its type has the same input: non-zero fields by their numbers, the members
// of maps in the order of their keys, lists and texts with their lengths. It distinguishes nil and empty lists of a struct.
func writeValue(h hash.Hash, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		writeNumber(h, bit(v.IsNil()))
		if v.IsNil() {
			return
		}
		if v.Kind() == reflect.Interface {
			writeString(h, v.Elem().Type().String())
		}
		writeValue(h, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); !field.IsZero() {
				writeNumber(h, uint64(i)+1)
				writeValue(h, field)
			}
		}
		writeNumber(h, 0)
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		writeNumber(h, uint64(len(keys)))
		for _, key := range keys {
			writeString(h, key.String())
			writeValue(h, v.MapIndex(key))
		}
	case reflect.Slice, reflect.Array:
		writeNumber(h, uint64(v.Len()))
		for i := range v.Len() {
			writeValue(h, v.Index(i))
		}
	case reflect.String:
		writeString(h, v.String())
	case reflect.Bool:
		writeNumber(h, bit(v.Bool()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		writeNumber(h, uint64(v.Int()))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		writeNumber(h, v.Uint())
	case reflect.Float32, reflect.Float64:
		writeNumber(h, math.Float64bits(v.Float()))
	default:
		panic(fmt.Sprintf("a value of %s cannot be summed up", v.Type())) // definitions have no such values
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func writeNumber(h hash.Hash, n uint64) {
	var buf [binary.MaxVarintLen64]byte
	_, _ = h.Write(buf[:binary.PutUvarint(buf[:], n)])
}

func writeString(h hash.Hash, s string) {
	writeNumber(h, uint64(len(s)))
	_, _ = h.Write(bytesOf(s))
}
