package equality

import (
	"reflect"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// shape is how the values of a comparer are compared.
type shape uint8

const (
	text shape = iota
	bits8
	bits16
	bits32
	bits64
	float32s
	float64s
	pointer
	structure
	list
	// byteList is a list of elements of one byte.
	byteList
	// function: by the comparer's function.
	function
)

// comparer compares two values of one type in memory. Comparers form a graph that may have cycles.
type comparer struct {
	shape  shape
	fields []comparedField // of a structure, with those of nested structures
	elem   *comparer       // of a pointer or a list
	size   uintptr         // of an element of a list
	// identity is set on a pointer if its target always equals itself: the target has no function of its own and no
	// number that may be NaN.
	identity bool
	function func(a, b unsafe.Pointer) bool
}

// comparedField is a field of a structure.
type comparedField struct {
	offset   uintptr
	comparer *comparer
}

// compiled returns the comparer of a type, made on first use. The caller holds e.mu.
func (e *Equality) compiled(t reflect.Type) *comparer {
	if p, ok := e.making[t]; ok {
		return p
	}
	p := &comparer{}
	e.making[t] = p // before its parts, which may refer to it
	if known := e.known[t]; known != nil {
		p.shape, p.function = function, known
	} else if !e.fill(p, t) {
		p.shape, p.function = function, e.upstreamWalk(t)
	}
	return p
}

// fill makes the comparer of t; it returns false where upstream has to walk.
func (e *Equality) fill(p *comparer, t reflect.Type) bool {
	if _, has := e.functions.Equalities[t]; has {
		return false
	}
	switch t.Kind() {
	case reflect.String:
		p.shape = text
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		p.shape = bits8
	case reflect.Int16, reflect.Uint16:
		p.shape = bits16
	case reflect.Int32, reflect.Uint32:
		p.shape = bits32
	case reflect.Int64, reflect.Uint64:
		p.shape = bits64
	case reflect.Int, reflect.Uint:
		p.shape = map[uintptr]shape{4: bits32, 8: bits64}[t.Size()]
	case reflect.Float32:
		p.shape = float32s
	case reflect.Float64:
		p.shape = float64s
	case reflect.Pointer:
		p.shape, p.elem = pointer, e.compiled(t.Elem())
		p.identity = e.equalsItself(t.Elem())
	case reflect.Slice:
		p.shape, p.elem, p.size = list, e.compiled(t.Elem()), t.Elem().Size()
		if p.elem.shape == bits8 {
			p.shape = byteList
		}
	case reflect.Struct:
		return e.fillStructure(p, t)
	case reflect.Map:
		p.shape, p.function = function, e.maps(t)
	case reflect.Interface:
		p.shape, p.function = function, e.interfaces(t)
	default:
		return false
	}
	return true
}

func (e *Equality) fillStructure(p *comparer, t reflect.Type) bool {
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return false
		}
	}
	p.shape = structure
	for i := range t.NumField() {
		f := t.Field(i)
		part := e.compiled(f.Type)
		if part.shape != structure {
			p.fields = append(p.fields, comparedField{f.Offset, part})
			continue
		}
		for _, inner := range part.fields { // finished: a struct does not contain itself
			p.fields = append(p.fields, comparedField{f.Offset + inner.offset, inner.comparer})
		}
	}
	return true
}

// equalsItself reports whether upstream takes a value of the type as equal to itself without looking into it.
func (e *Equality) equalsItself(t reflect.Type) bool {
	if _, has := e.functions.Equalities[t]; has {
		return false
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map, reflect.Array:
		return true
	}
	return false
}

// upstreamWalk leaves values to upstream. They are passed by address, at which a value may be equal to itself.
func (e *Equality) upstreamWalk(t reflect.Type) func(a, b unsafe.Pointer) bool {
	return func(a, b unsafe.Pointer) bool {
		fastpath.Equality.Fallback()
		return e.functions.DeepEqual(reflect.NewAt(t, a).Interface(), reflect.NewAt(t, b).Interface())
	}
}

func (e *Equality) interfaces(t reflect.Type) func(a, b unsafe.Pointer) bool {
	if t == reflect.TypeFor[any]() {
		return func(a, b unsafe.Pointer) bool { return e.dynamic(*(*any)(a), *(*any)(b)) }
	}
	return func(a, b unsafe.Pointer) bool {
		return e.dynamic(reflect.NewAt(t, a).Elem().Interface(), reflect.NewAt(t, b).Elem().Interface())
	}
}

// maps compares the maps of a type: common types directly, others by reflection.
func (e *Equality) maps(t reflect.Type) func(a, b unsafe.Pointer) bool {
	switch t {
	case reflect.TypeFor[map[string]string]():
		return equalStringMaps
	case reflect.TypeFor[corev1.ResourceList]():
		return equalQuantityMaps[corev1.ResourceName]
	case reflect.TypeFor[core.ResourceList]():
		return equalQuantityMaps[core.ResourceName]
	case reflect.TypeFor[map[string][]byte]():
		return equalMaps[string, []byte](e.compiled(t.Elem()))
	case reflect.TypeFor[map[string]any]():
		return func(a, b unsafe.Pointer) bool {
			return e.dynamicMaps(*(*map[string]any)(a), *(*map[string]any)(b))
		}
	}
	return reflectMaps(t, e.compiled(t.Elem()))
}

// upstreamFunctions are upstream's, for values in memory.
func upstreamFunctions() map[reflect.Type]func(a, b unsafe.Pointer) bool {
	return map[reflect.Type]func(a, b unsafe.Pointer) bool{
		reflect.TypeFor[resource.Quantity](): equalQuantities,
		reflect.TypeFor[metav1.Time](): func(a, b unsafe.Pointer) bool {
			return (*metav1.Time)(a).UTC() == (*metav1.Time)(b).UTC()
		},
		reflect.TypeFor[metav1.MicroTime](): func(a, b unsafe.Pointer) bool {
			return (*metav1.MicroTime)(a).UTC() == (*metav1.MicroTime)(b).UTC()
		},
		reflect.TypeFor[metav1.FieldsV1](): func(a, b unsafe.Pointer) bool {
			return (*metav1.FieldsV1)(a).Equal(*(*metav1.FieldsV1)(b))
		},
	}
}
