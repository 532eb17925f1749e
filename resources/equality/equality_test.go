package equality_test

import (
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crdfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	upstream "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apitesting "k8s.io/kubernetes/pkg/api/testing"
	"k8s.io/kubernetes/pkg/apis/apps"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"sigs.k8s.io/randfill"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/equality"
)

// original has the six functions of upstream's Semantic before any additions.
func original() conversion.Equalities {
	return conversion.EqualitiesOrDie(
		func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 },
		func(a, b metav1.MicroTime) bool { return a.UTC() == b.UTC() },
		func(a, b metav1.Time) bool { return a.UTC() == b.UTC() },
		func(a, b metav1.FieldsV1) bool { return a.Equal(b) },
		func(a, b labels.Selector) bool { return a.String() == b.String() },
		func(a, b fields.Selector) bool { return a.String() == b.String() },
	)
}

// registered are the types for which this package adds a function to Semantic.
func registered(t testing.TB) []reflect.Type {
	t.Helper()
	var out []reflect.Type
	theirs := original()
	for typ := range upstream.Semantic.Equalities {
		if _, ok := theirs.Equalities[typ]; !ok {
			out = append(out, typ)
		}
	}
	slices.SortFunc(out, func(a, b reflect.Type) int { return strings.Compare(typeName(a), typeName(b)) })
	if len(out) < 100 {
		t.Fatalf("%d types are registered: %v", len(out), out)
	}
	return out
}

// typeName is a type's name with the path of its package.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + typeName(t.Elem())
	case reflect.Slice:
		return "[]" + typeName(t.Elem())
	}
	return t.PkgPath() + "." + t.Name()
}

// kinds are the types of every version of every kind, by pointer.
func kinds() []reflect.Type {
	var out []reflect.Type
	for _, t := range builtin.Scheme.AllKnownTypes() {
		if t = reflect.PointerTo(t); !slices.Contains(out, t) && t.Implements(reflect.TypeFor[metav1.Object]()) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b reflect.Type) int { return strings.Compare(typeName(a), typeName(b)) })
	return out
}

// schemas fills the versions of JSONSchemaProps by way of the internal form, whose upstream filler terminates.
func schemas(serializer.CodecFactory) []any {
	convert := func(c randfill.Continue, out any) {
		var in apiextensions.JSONSchemaProps
		c.Fill(&in)
		if err := builtin.Scheme.Convert(&in, out, nil); err != nil {
			panic(err)
		}
	}
	return []any{
		func(out *apiextensionsv1.JSONSchemaProps, c randfill.Continue) { convert(c, out) },
		func(out *apiextensionsv1beta1.JSONSchemaProps, c randfill.Continue) { convert(c, out) },
	}
}

// pairs makes values of a type and compares them in two ways.
type pairs struct {
	t            testing.TB
	typ          reflect.Type
	rand         *rand.Rand
	fill         *randfill.Filler
	want, got    func(a, b any) bool
	equal, other int
}

func newPairs(t testing.TB, typ reflect.Type, seed int64, want, got func(a, b any) bool) *pairs {
	f := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(apitesting.FuzzerFuncs, crdfuzzer.Funcs, schemas), rand.NewSource(seed), builtin.Codecs)
	return &pairs{t: t, typ: typ, rand: rand.New(rand.NewSource(seed)), fill: f.NilChance(0.4).NumElements(0, 2), want: want, got: got}
}

// random makes a value, in a variable.
func (p *pairs) random() reflect.Value {
	out := reflect.New(p.typ)
	p.fill.Fill(out.Interface())
	return out.Elem()
}

func (p *pairs) check(a, b reflect.Value, how string) {
	x, y := a.Interface(), b.Interface()
	want := p.want(x, y)
	if want {
		p.equal++
	} else {
		p.other++
	}
	if got := p.got(x, y); got != want {
		p.t.Fatalf("%s, %s: equal is %v, want %v\n%#v\n%#v", p.typ, how, got, want, x, y)
	}
	if got := p.got(y, x); got != p.want(y, x) {
		p.t.Fatalf("%s, %s, the other way round: equal is %v\n%#v\n%#v", p.typ, how, got, x, y)
	}
}

func (p *pairs) run() {
	x := p.random()
	p.check(x, x, "itself")
	p.check(x, deepCopy(x), "a copy")
	p.check(x, p.random(), "another")
	zero := reflect.New(p.typ).Elem()
	p.check(x, zero, "nothing")
	p.check(zero, zero, "nothing twice")
	for range 8 {
		y := deepCopy(x)
		how := mutate(p.rand, y)
		p.check(x, y, how)
		p.check(y, y, how+", itself")
		shallow := reflect.New(p.typ).Elem()
		shallow.Set(y)
		p.check(y, shallow, how+", a shallow copy")
		p.check(y, deepCopy(y), how+", a copy")
	}
}

// both asserts that the pairs were both equal and unequal, or that there was nothing to distinguish.
func (p *pairs) both() {
	if p.equal < 10 || p.other < 10 {
		p.t.Errorf("of the pairs of %s, %d are equal and %d are not", p.typ, p.equal, p.other)
	}
}

// TestRegisteredTypes: Semantic gives the same answers for every registered type as before.
func TestRegisteredTypes(t *testing.T) {
	before := original()
	for i, typ := range registered(t) {
		t.Run(typeName(typ), func(t *testing.T) {
			p := newPairs(t, typ, int64(i), before.DeepEqual, upstream.Semantic.DeepEqual)
			for range 10 {
				p.run()
			}
			p.both()
		})
	}
}

// TestKinds: whole objects of every kind are compared as upstream does, also with one more function, as for
// KeepTimestamps.
func TestKinds(t *testing.T) {
	sameManager := func(a, b metav1.ManagedFieldsEntry) bool { return a.Manager == b.Manager }
	before := original()
	if err := before.AddFunc(sameManager); err != nil {
		t.Fatal(err)
	}
	with := equality.With(sameManager)
	for i, typ := range kinds() {
		t.Run(typeName(typ), func(t *testing.T) {
			plain := newPairs(t, typ, int64(i), original().DeepEqual, upstream.Semantic.DeepEqual)
			ours := newPairs(t, typ, int64(i), before.DeepEqual, with.DeepEqual)
			for range 3 {
				plain.run()
				ours.run()
			}
			plain.both()
			ours.both()
		})
	}
}

// TestNoTypeLeftToUpstream: comparers cover every registered type down to the last field, except interfaces.
func TestNoTypeLeftToUpstream(t *testing.T) {
	for _, typ := range registered(t) {
		equality.ComparerOf(typ)
	}
	compared := equality.Compared()
	if len(compared) < 500 {
		t.Errorf("only %d types have comparers", len(compared))
	}
	for typ, left := range compared {
		if left {
			t.Errorf("%s is left to upstream", typ)
		}
	}
}

// FuzzAgreesWithUpstream is TestRegisteredTypes and TestKinds without end.
func FuzzAgreesWithUpstream(f *testing.F) {
	types := append(registered(f), kinds()...)
	before, ours := original(), equality.With(func(a, b metav1.FieldsV1) bool { return a.Equal(b) })
	f.Add(int64(1), uint16(1))
	f.Fuzz(func(t *testing.T, seed int64, i uint16) {
		typ := types[int(i)%len(types)]
		newPairs(t, typ, seed, before.DeepEqual, upstream.Semantic.DeepEqual).run()
		newPairs(t, typ, seed, before.DeepEqual, ours.DeepEqual).run()
	})
}

// TestUntyped compares the Go types that JSON is decoded to, as in custom objects.
func TestUntyped(t *testing.T) {
	values := []any{nil, "", "a", true, false, int64(1), int64(2), 1.5, 2.5, float64(1), 7, []any{}, []any(nil), []any{"a"}, []any{nil},
		map[string]any{}, map[string]any(nil), map[string]any{"a": nil}, map[string]any{"a": "b"}, map[string]any{"b": "b"},
		map[string]any{"a": []any{}}, map[string]any{"a": map[string]any{}}, []string{"a"}, map[string]string{"a": "b"}, nan, []any{nan}}
	same, before := equality.With(func(a, b metav1.FieldsV1) bool { return a.Equal(b) }), original()
	for _, a := range values {
		for _, b := range values {
			x, y := map[string]any{"v": a, "w": int64(1)}, map[string]any{"v": b, "w": int64(1)}
			if got, want := same.DeepEqual(x, y), before.DeepEqual(x, y); got != want {
				t.Errorf("%#v and %#v: equal is %v, want %v", a, b, got, want)
			}
			if got, want := same.DeepEqual(a, b), before.DeepEqual(a, b); got != want {
				t.Errorf("%#v and %#v by themselves: equal is %v, want %v", a, b, got, want)
			}
		}
	}
}

// TestFunctionBelowRegisteredTypes: a function of With is also used below registered types, as in the template of a
// Deployment.
func TestFunctionBelowRegisteredTypes(t *testing.T) {
	deployment := func(s int64) *apps.Deployment {
		at := metav1.Unix(s, 0)
		d := &apps.Deployment{}
		d.Spec.Template.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a", Time: &at}}
		return d
	}
	e := equality.With(func(a, b metav1.ManagedFieldsEntry) bool { return a.Manager == b.Manager })
	if !e.DeepEqual(deployment(1), deployment(2)) {
		t.Error("the function is not heard")
	}
	if upstream.Semantic.DeepEqual(deployment(1), deployment(2)) {
		t.Error("Semantic has heard the function of another")
	}
}

// TestNodeAffinityOfVolumes: upstream adds a function to a copy of Semantic, by which an old label may become the new one.
func TestNodeAffinityOfVolumes(t *testing.T) {
	pv := func(key string) *core.PersistentVolume {
		term := core.NodeSelectorTerm{MatchExpressions: []core.NodeSelectorRequirement{{Key: key, Operator: core.NodeSelectorOpIn, Values: []string{"a"}}}}
		return &core.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv", ResourceVersion: "1"},
			Spec: core.PersistentVolumeSpec{
				Capacity:               core.ResourceList{core.ResourceStorage: resource.MustParse("1Gi")},
				AccessModes:            []core.PersistentVolumeAccessMode{core.ReadWriteOnce},
				PersistentVolumeSource: core.PersistentVolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/a"}},
				NodeAffinity:           &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{term}}},
			},
		}
	}
	old, opts := pv(corev1.LabelFailureDomainBetaZone), validation.PersistentVolumeSpecValidationOptions{}
	if errs := validation.ValidatePersistentVolumeUpdate(pv(corev1.LabelTopologyZone), old, opts); len(errs) > 0 {
		t.Errorf("the label's new name is refused: %v", errs)
	}
	if errs := validation.ValidatePersistentVolumeUpdate(pv("other"), old, opts); !strings.Contains(fmt.Sprint(errs.ToAggregate()), "immutable") {
		t.Errorf("another label is not refused: %v", errs)
	}
}

// TestConcurrently makes comparers while others use them, for the race detector.
func TestConcurrently(t *testing.T) {
	e := equality.With(func(a, b metav1.FieldsV1) bool { return a.Equal(b) })
	all := kinds()
	done := make(chan struct{})
	for i := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for _, j := range rand.New(rand.NewSource(int64(i))).Perm(len(all)) {
				a, b := reflect.New(all[j].Elem()), reflect.New(all[j].Elem())
				if !e.DeepEqual(a.Interface(), b.Interface()) {
					t.Errorf("two empty objects of %s differ", all[j])
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
}

// BenchmarkPodSpec compares equal specs of a pod of 4.8 KB, by upstream's walk and by Semantic with comparers.
func BenchmarkPodSpec(b *testing.B) {
	data, err := os.ReadFile("../../server/codec/transcode/testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	versioned, _, err := builtin.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	hub, err := builtin.Scheme.ConvertToVersion(versioned, schema.GroupVersion{Version: runtime.APIVersionInternal})
	if err != nil {
		b.Fatal(err)
	}
	v, w := versioned.(*corev1.Pod), versioned.DeepCopyObject().(*corev1.Pod)
	x, y := hub.(*core.Pod), hub.DeepCopyObject().(*core.Pod)
	ways := map[string]conversion.Equalities{"upstream": original(), "ours": upstream.Semantic}
	for _, way := range []string{"upstream", "ours"} {
		for name, equal := range map[string]func(e conversion.Equalities) bool{
			"value":   func(e conversion.Equalities) bool { return e.DeepEqual(x.Spec, y.Spec) },
			"pointer": func(e conversion.Equalities) bool { return e.DeepEqual(&v.Spec, &w.Spec) },
			"meta":    func(e conversion.Equalities) bool { return e.DeepEqual(&v.ObjectMeta, &w.ObjectMeta) },
			"pod":     func(e conversion.Equalities) bool { return e.DeepEqual(x, y) },
		} {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !equal(ways[way]) {
						b.Fatal("they are equal")
					}
				}
			})
		}
	}
}
