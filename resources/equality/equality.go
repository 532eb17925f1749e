package equality

import (
	"reflect"
	"sync"
	"unsafe"

	upstream "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/conversion"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// original is upstream's equality as it is before resources/upstream adds to it.
var original = upstream.Semantic.Copy()

// Equality is semantic equality, perhaps with a function more. It can be used concurrently.
type Equality struct {
	// functions are those by which types are compared, with upstream's walk around them.
	functions conversion.Equalities
	// known are functions of the above that need no reflection.
	known map[reflect.Type]func(a, b unsafe.Pointer) bool

	ready  sync.Map // reflect.Type → *comparer, with all that is below it
	mu     sync.Mutex
	making map[reflect.Type]*comparer // guarded by mu; these may refer to comparers that are not finished
}

// semantic is what upstream's Semantic is.
var semantic = newEquality()

func newEquality() *Equality {
	return &Equality{functions: original.Copy(), known: upstreamFunctions(), making: map[reflect.Type]*comparer{}}
}

// With returns semantic equality with a function for T, which must be no interface. The function must take a value for
// equal to itself.
func With[T any](equal func(a, b T) bool) *Equality {
	e := newEquality()
	if err := e.functions.AddFunc(equal); err != nil {
		panic(err) // never: its type is right
	}
	e.known[reflect.TypeFor[T]()] = func(a, b unsafe.Pointer) bool { return equal(*(*T)(a), *(*T)(b)) }
	return e
}

// DeepEqual reports whether two values are equal. It is quick for pointers and maps; others go upstream's way.
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
