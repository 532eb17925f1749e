package equality

import "reflect"

// ComparerOf makes the comparer of a type, and of all that is below it.
func ComparerOf(t reflect.Type) { semantic.comparer(t) }

// Compared are the types that have comparers, and whether values of them are left to upstream's walk.
func Compared() map[reflect.Type]bool {
	semantic.mu.Lock()
	defer semantic.mu.Unlock()
	left := map[reflect.Type]bool{}
	for t, p := range semantic.making {
		switch t.Kind() {
		case reflect.Struct:
			left[t] = p.shape != structure && semantic.known[t] == nil
		case reflect.Array, reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Uintptr, reflect.Complex64, reflect.Complex128:
			left[t] = true
		default:
			left[t] = false
		}
	}
	return left
}
