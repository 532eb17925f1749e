package equality

import (
	"reflect"
	"sync"
	"unsafe"

	upstream "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/conversion"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// original is upstream's equality before resources/upstream adds to it.
var original = upstream.Semantic.Copy()

// Equality is semantic equality, perhaps with one more function. It is safe for concurrent use.
type Equality struct {
	// functions are the functions of types, with upstream's walk around them.
	functions conversion.Equalities
	// known are those of the functions that need no reflection.
	known map[reflect.Type]func(a, b unsafe.Pointer) bool

	ready  sync.Map // reflect.Type → *comparer, complete with all below it
	mu     sync.Mutex
	making map[reflect.Type]*comparer // guarded by mu; these may refer to unfinished comparers
}

// semantic is equal to upstream's Semantic.
var semantic = newEquality()

func newEquality() *Equality {
	return &Equality{functions: original.Copy(), known: upstreamFunctions(), making: map[reflect.Type]*comparer{}}
}

// With returns semantic equality with a function for T, which must not be an interface. The function must report every
// value as equal to itself.
func With[T any](equal func(a, b T) bool) *Equality {
	e := newEquality()
	if err := e.functions.AddFunc(equal); err != nil {
		panic(err) // never: its type is right
	}
	e.known[reflect.TypeFor[T]()] = func(a, b unsafe.Pointer) bool { return equal(*(*T)(a), *(*T)(b)) }
	return e
}

// DeepEqual reports whether two values are equal. It is quick for pointers and maps; other values are left to upstream.
func (e *Equality) DeepEqual(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Type() != y.Type() {
		return false
	}
	if !fastpath.Equality.On() {
		return e.functions.DeepEqual(a, b)
	}
	switch x.Kind() {
	case reflect.Pointer, reflect.Map:
		p, q := x.UnsafePointer(), y.UnsafePointer()
		return e.comparer(x.Type()).equal(unsafe.Pointer(&p), unsafe.Pointer(&q))
	}
	fastpath.Equality.Fallback()
	return e.functions.DeepEqual(a, b)
}

// comparer returns the comparer of a type.
func (e *Equality) comparer(t reflect.Type) *comparer {
	if p, ok := e.ready.Load(t); ok {
		return p.(*comparer)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.compiled(t)
	e.ready.Store(t, p)
	return p
}
