package equality

import (
	"reflect"
	"unsafe"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Structs returns the functions by which values of a type, and pointers to them, are compared by a comparer as upstream's
// equality.Semantic does it. They are what Semantic's AddFunc takes.
func Structs[T any]() []any {
	return []any{
		func(a, b T) bool {
			if !fastpath.Equality.On() {
				return original.DeepEqual(a, b)
			}
			return semantic.comparer(reflect.TypeFor[T]()).equal(unsafe.Pointer(&a), unsafe.Pointer(&b))
		},
		func(a, b *T) bool {
			if !fastpath.Equality.On() {
				return original.DeepEqual(a, b)
			}
			return semantic.comparer(reflect.TypeFor[*T]()).equalPointers(unsafe.Pointer(a), unsafe.Pointer(b))
		},
	}
}

// Lists returns the function by which lists of a type are compared, as Structs does.
func Lists[T any]() []any {
	return []any{func(a, b []T) bool {
		if !fastpath.Equality.On() {
			return original.DeepEqual(a, b)
		}
		return semantic.comparer(reflect.TypeFor[[]T]()).equalLists(unsafe.Pointer(&a), unsafe.Pointer(&b))
	}}
}
