package fieldmanager

import (
	"bytes"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// equalFunc reports whether two values of one type are equal by upstream's rules: roughly, whether they have the same
// JSON. The values are not pointers.
type equalFunc func(a, b reflect.Value) bool

// equalities makes equalities, each once; the map also closes the cycles of recursive types.
type equalities map[reflect.Type]*equalFunc

func newEqualities() equalities {
	return equalities{
		reflect.TypeFor[metav1.Time]():        of(equalTimes),
		reflect.TypeFor[metav1.MicroTime]():   of(equalMicroTimes),
		reflect.TypeFor[metav1.Duration]():    of(func(a, b *metav1.Duration) bool { return a.Duration == b.Duration }),
		reflect.TypeFor[resource.Quantity]():  of(equalQuantities),
		reflect.TypeFor[intstr.IntOrString](): of(equalIntOrStrings),
	}
}

func of[T any](equal func(a, b *T) bool) *equalFunc {
	var e equalFunc = func(a, b reflect.Value) bool {
		return equal(address(a).Interface().(*T), address(b).Interface().(*T))
	}
	return &e
}

// address returns a pointer to a value or, where it has none (an entry of a map), to a copy.
func address(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v.Addr()
	}
	out := reflect.New(v.Type())
	out.Elem().Set(v)
	return out
}

func equalTimes(a, b *metav1.Time) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() == b.IsZero()
	}
	return a.Unix() == b.Unix()
}

func equalMicroTimes(a, b *metav1.MicroTime) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() == b.IsZero()
	}
	return a.UnixMicro() == b.UnixMicro()
}

func equalQuantities(a, b *resource.Quantity) bool {
	return *a == *b || a.String() == b.String()
}

func equalIntOrStrings(a, b *intstr.IntOrString) bool {
	if a.Type != b.Type {
		return false
	}
	if a.Type == intstr.String {
		return a.StrVal == b.StrVal
	}
	return a.IntVal == b.IntVal
}

func (m equalities) of(t reflect.Type) equalFunc {
	if e, ok := m[t]; ok {
		if *e == nil {
			return func(a, b reflect.Value) bool { return (*e)(a, b) } // not made yet: t is recursive
		}
		return *e
	}
	e := new(equalFunc)
	m[t] = e
	*e = m.make(t)
	return *e
}

func (m equalities) make(t reflect.Type) equalFunc {
	if t.Kind() != reflect.Pointer && marshals(t) {
		return equalMarshalled
	}
	switch t.Kind() {
	case reflect.Pointer:
		elem := m.of(t.Elem())
		return func(a, b reflect.Value) bool {
			if a.IsNil() || b.IsNil() {
				return a.IsNil() == b.IsNil()
			}
			return elem(a.Elem(), b.Elem())
		}
	case reflect.Struct:
		return m.structs(t)
	case reflect.Map:
		return m.maps(t)
	case reflect.Slice:
		return m.slices(t)
	case reflect.String:
		return func(a, b reflect.Value) bool { return a.String() == b.String() }
	case reflect.Bool:
		return func(a, b reflect.Value) bool { return a.Bool() == b.Bool() }
	case reflect.Float32, reflect.Float64:
		return func(a, b reflect.Value) bool { return a.Float() == b.Float() }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return func(a, b reflect.Value) bool { return a.Uint() == b.Uint() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(a, b reflect.Value) bool { return a.Int() == b.Int() }
	}
	return equalMarshalled
}

func (m equalities) structs(t reflect.Type) equalFunc {
	fields := structFields(t)
	equals := make([]equalFunc, len(fields))
	for i, f := range fields {
		equals[i] = m.of(t.FieldByIndex(f.index).Type)
	}
	return func(a, b reflect.Value) bool {
		for i := range fields {
			f := &fields[i]
			x, y := f.of(a), f.of(b)
			if f.omit != nil {
				if gone := f.omit(x); gone || f.omit(y) {
					if gone && f.omit(y) {
						continue
					}
					return false
				}
			}
			if !equals[i](x, y) {
				return false
			}
		}
		return true
	}
}

func (m equalities) maps(t reflect.Type) equalFunc {
	elem := m.of(t.Elem())
	return func(a, b reflect.Value) bool {
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for it := a.MapRange(); it.Next(); {
			y := b.MapIndex(it.Key())
			if !y.IsValid() || !elem(it.Value(), y) {
				return false
			}
		}
		return true
	}
}

func (m equalities) slices(t reflect.Type) equalFunc {
	if t.Elem().Kind() == reflect.Uint8 {
		return func(a, b reflect.Value) bool {
			return a.IsNil() == b.IsNil() && bytes.Equal(a.Bytes(), b.Bytes())
		}
	}
	if !plainScalar(t.Elem()) {
		// Upstream compares lists as Go does, so that nil and empty differ below a list even where JSON has neither.
		return func(a, b reflect.Value) bool { return reflect.DeepEqual(a.Interface(), b.Interface()) }
	}
	elem := m.of(t.Elem())
	return func(a, b reflect.Value) bool {
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !elem(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
}

// equalMarshalled compares two values by their JSON.
func equalMarshalled(a, b reflect.Value) bool {
	x, err := value.NewValueReflect(address(a).Interface())
	if err != nil {
		return false
	}
	y, err := value.NewValueReflect(address(b).Interface())
	if err != nil {
		return false
	}
	return value.Equals(x, y)
}
