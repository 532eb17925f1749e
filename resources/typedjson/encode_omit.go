package typedjson

import (
	"reflect"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources/gotype"
)

// omission returns the test of whether a field's value is omitted; nil where none ever is.
func omission(f gotype.Field) func(p unsafe.Pointer) bool {
	var empty, zero func(p unsafe.Pointer) bool
	if f.OmitEmpty {
		empty = emptiness(f.Type)
	}
	if f.OmitZero {
		zero = zeroness(f.Type)
	}
	switch {
	case empty == nil:
		return zero
	case zero == nil:
		return empty
	}
	return func(p unsafe.Pointer) bool { return empty(p) || zero(p) }
}

// emptiness is the test of the option omitempty: a struct is never empty.
func emptiness(t reflect.Type) func(p unsafe.Pointer) bool {
	switch t.Kind() {
	case reflect.Struct:
		return nil
	case reflect.Float32:
		return isZero[float32] // -0, too
	case reflect.Float64:
		return isZero[float64]
	case reflect.String:
		return func(p unsafe.Pointer) bool { return *(*string)(p) == "" }
	case reflect.Slice:
		return func(p unsafe.Pointer) bool { return len(*(*[]byte)(p)) == 0 }
	case reflect.Pointer:
		return func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil }
	case reflect.Map:
		if isStringMap(t) {
			return func(p unsafe.Pointer) bool { return len(*(*map[string]string)(p)) == 0 }
		}
		return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().Len() == 0 }
	}
	switch t.Size() { // of a number or a bool
	case 1:
		return isZero[uint8]
	case 2:
		return isZero[uint16]
	case 4:
		return isZero[uint32]
	}
	return isZero[uint64]
}

func isZero[T uint8 | uint16 | uint32 | uint64 | float32 | float64](p unsafe.Pointer) bool {
	return *(*T)(p) == 0
}

type zeroer interface{ IsZero() bool }

var zeroerType = reflect.TypeFor[zeroer]()

// zeroness is the test of the option omitzero: the type's own, if it has one.
func zeroness(t reflect.Type) func(p unsafe.Pointer) bool {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return func(p unsafe.Pointer) bool { return (*metav1.Time)(p).IsZero() }
	case t.Kind() == reflect.Pointer && t.Implements(zeroerType):
		return func(p unsafe.Pointer) bool {
			v := reflect.NewAt(t, p).Elem()
			return v.IsNil() || v.Interface().(zeroer).IsZero()
		}
	case reflect.PointerTo(t).Implements(zeroerType):
		return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Interface().(zeroer).IsZero() }
	}
	return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().IsZero() }
}
