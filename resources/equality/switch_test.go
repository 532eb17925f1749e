package equality

import (
	"reflect"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// A type that a comparer leaves to upstream is counted while the path is on. While it is off, it is not entered: no comparer is
// made, and nothing is counted.
func TestEqualityIsSwitched(t *testing.T) {
	type covered struct{ Text string }
	type uncovered struct{ Numbers [2]int }
	var (
		byValue   = Structs[covered]()[0].(func(a, b covered) bool)
		byPointer = Structs[covered]()[1].(func(a, b *covered) bool)
		lists     = Lists[covered]()[0].(func(a, b []covered) bool)
		own       = With(func(a, b int8) bool { return true })
	)
	one, other := covered{"a"}, covered{"b"}
	compare := func() (fallbacks int64) {
		before := fastpath.Equality.Fallbacks()
		for name, got := range map[string][2]bool{
			"values":   {byValue(one, covered{"a"}), byValue(one, other)},
			"pointers": {byPointer(&one, &covered{"a"}), byPointer(&one, &other)},
			"lists":    {lists([]covered{one}, []covered{{"a"}}), lists([]covered{one}, []covered{other})},
			"any":      {own.DeepEqual(&one, &covered{"a"}), own.DeepEqual(&one, &other)},
			"arrays":   {own.DeepEqual(&uncovered{}, &uncovered{}), own.DeepEqual(&uncovered{}, &uncovered{[2]int{1}})},
		} {
			if got != [2]bool{true, false} {
				t.Errorf("%s: equal: %t, different: %t", name, got[0], got[1])
			}
		}
		return fastpath.Equality.Fallbacks() - before
	}
	made := func() (n int) {
		for _, e := range []*Equality{semantic, own} {
			e.mu.Lock()
			for _, typ := range []reflect.Type{reflect.TypeFor[covered](), reflect.TypeFor[uncovered]()} {
				if e.making[typ] != nil {
					n++
				}
			}
			e.mu.Unlock()
		}
		return n
	}
	back := fastpath.Equality.Turn(false)
	if n := compare(); n != 0 || made() != 0 {
		t.Errorf("off: %d fallbacks, %d comparers", n, made())
	}
	back()
	if n := compare(); n != 2 { // for a type with arrays in it
		t.Errorf("on: %d fallbacks", n)
	}
	if n := made(); n != 3 {
		t.Errorf("on: %d comparers were made", n)
	}
}
