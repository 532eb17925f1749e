package equality

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// equal compares the values at two addresses.
func (p *comparer) equal(a, b unsafe.Pointer) bool {
	switch p.shape {
	case text:
		return *(*string)(a) == *(*string)(b)
	case bits8:
		return *(*uint8)(a) == *(*uint8)(b)
	case bits16:
		return *(*uint16)(a) == *(*uint16)(b)
	case bits32:
		return *(*uint32)(a) == *(*uint32)(b)
	case bits64:
		return *(*uint64)(a) == *(*uint64)(b)
	case float32s:
		return *(*float32)(a) == *(*float32)(b)
	case float64s:
		return *(*float64)(a) == *(*float64)(b)
	case pointer:
		return p.equalPointers(*(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b))
	case structure:
		for i := range p.fields {
			f := &p.fields[i]
			if !f.comparer.equal(unsafe.Add(a, f.offset), unsafe.Add(b, f.offset)) {
				return false
			}
		}
		return true
	case list:
		return p.equalLists(a, b)
	case byteList:
		return string(*(*[]byte)(a)) == string(*(*[]byte)(b))
	}
	return p.function(a, b)
}

func (p *comparer) equalPointers(a, b unsafe.Pointer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b && p.identity || p.elem.equal(a, b)
}

func (p *comparer) equalLists(a, b unsafe.Pointer) bool {
	// Only the address and the length of the lists are used, whatever their elements.
	x, y := *(*[]struct{})(a), *(*[]struct{})(b)
	if len(x) != len(y) {
		return false
	}
	if len(x) == 0 {
		return true
	}
	a, b = unsafe.Pointer(unsafe.SliceData(x)), unsafe.Pointer(unsafe.SliceData(y))
	if a == b {
		return true
	}
	for i := range uintptr(len(x)) {
		if !p.elem.equal(unsafe.Add(a, i*p.size), unsafe.Add(b, i*p.size)) {
			return false
		}
	}
	return true
}

func equalQuantities(a, b unsafe.Pointer) bool {
	x, y := (*resource.Quantity)(a), (*resource.Quantity)(b)
	return *x == *y || sameQuantity(*x, *y)
}

// sameQuantity gets copies, since Cmp may change its receiver.
func sameQuantity(x, y resource.Quantity) bool {
	return x.Cmp(y) == 0
}

func equalQuantityMaps[K comparable](a, b unsafe.Pointer) bool {
	if *(*unsafe.Pointer)(a) == *(*unsafe.Pointer)(b) {
		return true
	}
	x, y := *(*map[K]resource.Quantity)(a), *(*map[K]resource.Quantity)(b)
	if len(x) != len(y) {
		return false
	}
	for k, v := range x {
		if w, ok := y[k]; !ok || v != w && !sameQuantity(v, w) {
			return false
		}
	}
	return true
}

func equalStringMaps(a, b unsafe.Pointer) bool {
	if *(*unsafe.Pointer)(a) == *(*unsafe.Pointer)(b) {
		return true
	}
	x, y := *(*map[string]string)(a), *(*map[string]string)(b)
	if len(x) != len(y) {
		return false
	}
	for k, v := range x {
		if w, ok := y[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// equalMaps compares the maps of one type, or of a type defined from it.
func equalMaps[K comparable, V any](elem *comparer) func(a, b unsafe.Pointer) bool {
	return func(a, b unsafe.Pointer) bool {
		if *(*unsafe.Pointer)(a) == *(*unsafe.Pointer)(b) {
			return true
		}
		x, y := *(*map[K]V)(a), *(*map[K]V)(b)
		if len(x) != len(y) {
			return false
		}
		if len(x) == 0 {
			return true
		}
		var v, w V // one allocation each, not one per key
		for k, value := range x {
			other, ok := y[k]
			if v, w = value, other; !ok || !elem.equal(unsafe.Pointer(&v), unsafe.Pointer(&w)) {
				return false
			}
		}
		return true
	}
}

// reflectMaps compares maps of any type.
func reflectMaps(t reflect.Type, elem *comparer) func(a, b unsafe.Pointer) bool {
	return func(a, b unsafe.Pointer) bool {
		if *(*unsafe.Pointer)(a) == *(*unsafe.Pointer)(b) {
			return true
		}
		x, y := reflect.NewAt(t, a).Elem(), reflect.NewAt(t, b).Elem()
		if x.Len() != y.Len() {
			return false
		}
		if x.Len() == 0 {
			return true
		}
		v, w := reflect.New(t.Elem()), reflect.New(t.Elem())
		for it := x.MapRange(); it.Next(); {
			other := y.MapIndex(it.Key())
			if !other.IsValid() {
				return false
			}
			v.Elem().SetIterValue(it)
			w.Elem().Set(other)
			if !elem.equal(v.UnsafePointer(), w.UnsafePointer()) {
				return false
			}
		}
		return true
	}
}

// dynamic compares the values of two interfaces. The types that JSON is decoded to come first: custom objects consist of
// them.
func (e *Equality) dynamic(a, b any) bool {
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x == y
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case int64:
		y, ok := b.(int64)
		return ok && x == y
	case float64:
		y, ok := b.(float64)
		return ok && x == y
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && e.dynamicMaps(x, y)
	case []any:
		y, ok := b.([]any)
		return ok && e.dynamicLists(x, y)
	}
	return e.DeepEqual(a, b)
}

func (e *Equality) dynamicMaps(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	if sameMap(a, b) {
		return true
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || !e.dynamic(v, w) {
			return false
		}
	}
	return true
}

func sameMap(a, b map[string]any) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b))
}

func (e *Equality) dynamicLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	if unsafe.SliceData(a) == unsafe.SliceData(b) {
		return true
	}
	for i := range a {
		if !e.dynamic(a[i], b[i]) {
			return false
		}
	}
	return true
}
