package equality

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	core "k8s.io/kubernetes/pkg/apis/core"
)

type (
	small  int8
	octet  byte
	inner  struct{ S string }
	hidden struct {
		First  int
		secret int
	}
	padded struct {
		A int8
		B int64
		C bool
		D float32
	}
	tree struct {
		Name     string
		Children []tree
		ByName   map[string]tree
		Only     *tree
	}
	embedding struct {
		inner // unexported, if only by its name
		N     int
	}
	parts struct {
		Inner inner
		None  struct{}
		Last  uint16
	}
)

// samples are values of types in the API and of some that it does not have. The values of one line are compared with each
// other.
func samples() [][]any {
	nan, one, other := math.NaN(), 1.0, 1.0
	numbers, again := []float64{nan}, []float64{nan}
	pointers := []*float64{&nan}
	arrays, secret, now := &[2]float64{nan, 1}, &hidden{secret: 1}, time.Now()
	floats, sames := map[string]float64{"a": nan}, map[string][]float64{"a": numbers}
	f := func() {}
	c := make(chan int)
	set := func(s string) labels.Selector { return labels.SelectorFromSet(labels.Set{"a": s}) }
	return [][]any{
		{true, false}, {1, 2}, {small(1), small(2)}, {uint(1), uint(2)}, {uintptr(1), uintptr(2)}, {1i, 2i}, {f, (func())(nil)}, {c, make(chan int)},
		{nan, 0.0, math.Copysign(0, -1), 1.0}, {float32(nan), float32(0)},
		{&nan, &one, &other, (*float64)(nil)}, {numbers, again, []float64{}, []float64(nil), []float64{1}}, {pointers, []*float64{&nan}, []*float64{nil}},
		{arrays, &[2]float64{nan, 1}, &[2]float64{1, 1}, &[2]float64{1, 1}}, {[]octet{1}, []octet{1}, []octet{2}, []octet{}, []octet(nil)},
		{[]small{1, 2}, []small{1, 2}, []small{1, 3}, []small{1}}, {[]bool{true}, []bool{true}, []bool{false}}, {[]struct{}{{}}, []struct{}{{}, {}}},
		{secret, &hidden{First: 1}, &hidden{}, &hidden{secret: 1}, (*hidden)(nil)}, {[]hidden{{}}, []hidden{{}}, []hidden{{First: 1}}, []hidden{}},
		{&padded{1, 2, true, 3}, &padded{1, 2, true, 3}, &padded{2, 2, true, 3}, &padded{1, 1 << 40, true, 3}, &padded{1, 2, false, 3}, &padded{D: float32(nan)}},
		{&tree{}, &tree{Children: []tree{}, ByName: map[string]tree{}}, &tree{Only: &tree{}}, &tree{Only: &tree{Only: &tree{Name: "a"}}},
			&tree{Only: &tree{Only: &tree{Name: "a"}}}, &tree{Children: []tree{{}, {Name: "a"}}}, &tree{Children: []tree{{}, {Name: "a"}}},
			&tree{ByName: map[string]tree{"a": {Name: "b"}}}, &tree{ByName: map[string]tree{"a": {Name: "b"}}}, &tree{ByName: map[string]tree{"b": {Name: "b"}}}},
		{&embedding{inner{"a"}, 1}, &embedding{inner{"a"}, 1}, &embedding{inner{"a"}, 2}}, {&parts{Last: 1}, &parts{Last: 1}, &parts{Last: 256}, &parts{Inner: inner{"a"}}},
		{floats, map[string]float64{"a": nan}, map[string]float64{"a": 1}, map[string]float64{"a": 1}, map[string]float64{}, map[string]float64(nil)},
		{sames, map[string][]float64{"a": numbers}, map[string][]float64{"a": again}, map[string][]float64{"a": nil}, map[string][]float64{"b": nil}},
		{map[int]*inner{1: {"a"}}, map[int]*inner{1: {"a"}}, map[int]*inner{1: nil}, map[int]*inner{2: {"a"}}, map[int]*inner{1: nil, 2: nil}},
		{map[inner]bool{{"a"}: true}, map[inner]bool{{"a"}: true}, map[inner]bool{{"b"}: true}},
		{map[string]inner{"a": {"a"}}, map[string]inner{"a": {"a"}}, map[string]inner{"a": {"b"}}, map[string]inner{"b": {}}},
		{map[string][]byte{"a": nil}, map[string][]byte{"a": {}}, map[string][]byte{"b": {}}, map[string][]byte{"a": {1}}, map[string][]byte{"a": {1}}},
		{map[string]string{"a": ""}, map[string]string{"b": ""}, map[string]string{"a": ""}, map[string]string{"a": "b"}, map[string]string{}, map[string]string(nil)},
		{corev1.ResourceList{"a": {}}, corev1.ResourceList{"b": {}}, corev1.ResourceList{"a": resource.MustParse("0m")}, corev1.ResourceList{"a": resource.MustParse("1")}, corev1.ResourceList{}},
		{core.ResourceList{"a": {}}, core.ResourceList{"b": {}}, core.ResourceList{"a": resource.MustParse("0m")}, core.ResourceList{"a": resource.MustParse("1")}, core.ResourceList(nil)},
		{labels.Set{"a": ""}, labels.Set{"b": ""}, labels.Set{"a": ""}, labels.Set{}},
		{[]any{1}, []any{int64(1)}, []any{nil}, []any{inner{}}, []any{&inner{}}, []any{&inner{}}, []any{numbers}, []any{again}, []any{secret}, []any{nan}},
		{[]fmt.Stringer{&metav1.Duration{}}, []fmt.Stringer{time.Duration(1)}, []fmt.Stringer{time.Duration(1)}, []fmt.Stringer{nil}, []fmt.Stringer{&metav1.Duration{Duration: 1}}},
		{&now, &time.Time{}}, {[]metav1.Time{{Time: now}}, []metav1.Time{{Time: now.UTC()}}, []metav1.Time{{Time: now.Round(0)}}, []metav1.Time{{}}},
		{[]metav1.MicroTime{{Time: now}}, []metav1.MicroTime{{Time: now.UTC()}}, []metav1.MicroTime{{Time: now.Add(1)}}},
		{[]resource.Quantity{resource.MustParse("1")}, []resource.Quantity{resource.MustParse("1000m")}, []resource.Quantity{resource.MustParse("2")},
			[]resource.Quantity{resource.MustParse("1.00000000000000000000000001")}, []resource.Quantity{resource.MustParse("1.000000000000000000000000010")}},
		{[]labels.Selector{set("a")}, []labels.Selector{set("a")}, []labels.Selector{set("b")}, []labels.Selector{nil}},
	}
}

// outcome is the answer, or the panic.
func outcome(equal func(a, b any) bool, a, b any) (out string) {
	defer func() {
		if recover() != nil {
			out = "panic"
		}
	}()
	return fmt.Sprint(equal(a, b))
}

// TestTypes: the answers are upstream's, panics included, for values by themselves and in variables, where upstream compares
// addresses, and for the same below other values.
func TestTypes(t *testing.T) {
	ours := newEquality()
	count := map[string]int{}
	for _, values := range samples() {
		for i, x := range values {
			for j, y := range values {
				v, w := reflect.ValueOf(x), reflect.ValueOf(y)
				p, q := reflect.New(v.Type()), reflect.New(w.Type())
				p.Elem().Set(v)
				q.Elem().Set(w)
				for _, c := range [][2]any{
					{x, y}, {p.Interface(), q.Interface()}, {p.Interface(), p.Interface()},
					{map[string]any{"a": x}, map[string]any{"a": y}}, {&[]any{x}, &[]any{y}},
				} {
					want, got := outcome(original.DeepEqual, c[0], c[1]), outcome(ours.DeepEqual, c[0], c[1])
					if got != want {
						t.Errorf("%T: %d and %d, as %T: %s, want %s", x, i, j, c[0], got, want)
					}
					count[want]++
				}
			}
		}
	}
	for _, want := range []string{"true", "false", "panic"} {
		if count[want] < 20 {
			t.Errorf("%s is expected %d times", want, count[want])
		}
	}
}

// TestQuantitiesStay: a comparison does not change its arguments, which others may read meanwhile.
func TestQuantitiesStay(t *testing.T) {
	make := func(s string) *[]resource.Quantity { return &[]resource.Quantity{resource.MustParse(s)} }
	a, b := make("1"), make("1.00000000000000000000000001")
	if newEquality().DeepEqual(a, b) {
		t.Error("they are equal")
	}
	if want := make("1"); !reflect.DeepEqual(a, want) {
		t.Errorf("%#v has become %#v", want, a)
	}
}
