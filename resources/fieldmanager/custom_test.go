package fieldmanager

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/rowlock/rowlock/resources/fastpath"
)

var (
	widgetV1 = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widgetV2 = schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}
)

// widgetScheme serves a custom resource in two versions of one form, and defaults one field of it.
type widgetScheme struct{}

func (widgetScheme) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u, nil
}

func (widgetScheme) Default(obj runtime.Object) {
	if s, ok := obj.(*unstructured.Unstructured).Object["spec"].(map[string]any); ok {
		if _, there := s["mode"]; !there {
			s["mode"] = "auto"
		}
	}
}

func (widgetScheme) Convert(in, out, context any) error { panic("unused") }

func (widgetScheme) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	panic("unused")
}

func (widgetScheme) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	u := in.(*unstructured.Unstructured)
	kind, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{widgetV1, widgetV2})
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget("widgets", reflect.TypeOf(u), to)
	}
	if u.GroupVersionKind() == kind {
		return in, nil
	}
	out := u.DeepCopy()
	out.SetGroupVersionKind(kind)
	return out, nil
}

// widgetTypes is the type converter of the custom resource.
func widgetTypes(t testing.TB) managedfields.TypeConverter {
	const text = `{"type":"object","properties":{
		"apiVersion":{"type":"string"},"kind":{"type":"string"},
		"metadata":{"type":"object","properties":{"name":{"type":"string"},"uid":{"type":"string"},
			"labels":{"type":"object","additionalProperties":{"type":"string"}},
			"managedFields":{"type":"array","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}},
		"spec":{"type":"object","properties":{
			"mode":{"type":"string"},"count":{"type":"integer"},"ratio":{"type":"number"},"on":{"type":"boolean"},
			"port":{"x-kubernetes-int-or-string":true},
			"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
			"whole":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"},"b":{"type":"integer"}}},
			"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
			"numbers":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer"}},
			"list":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}},
			"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","name"],
				"items":{"type":"object","properties":{"name":{"type":"string"},"port":{"type":"integer","default":80},"size":{"type":"integer"},
					"inner":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],
						"items":{"type":"object","properties":{"id":{"type":"string"},"v":{"type":"integer"}}}}}}}}},
		"status":{"type":"object","properties":{"phase":{"type":"string"},"seen":{"type":"object","additionalProperties":{"type":"integer"}}}}}}`
	definitions := map[string]*spec.Schema{}
	for _, kind := range []schema.GroupVersionKind{widgetV1, widgetV2} {
		s := &spec.Schema{}
		if err := json.Unmarshal([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind}})
		definitions["com.example."+kind.Version+".Widget"] = s
	}
	types, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// randomWidget makes an object, or part of one.
func randomWidget(r *rand.Rand) map[string]any {
	word := func() any { return []any{"a", "b", "c-d", "e.f/g", "<h>"}[min(r.Intn(5), r.Intn(7), r.Intn(7))] }
	number := func() any { return int64(r.Intn(4)) }
	some := func(n int, make func() any) []any {
		out := []any{}
		for range r.Intn(n + 1) {
			if x := make(); r.Intn(20) == 0 || !slices.ContainsFunc(out, func(y any) bool { return sameItem(x, y) }) {
				out = append(out, x)
			}
		}
		return out
	}
	m := func(fields map[string]func() any) map[string]any {
		out := map[string]any{}
		for _, k := range slices.Sorted(mapKeys(fields)) {
			if r.Intn(3) > 0 {
				out[k] = fields[k]()
			}
			if r.Intn(150) == 0 {
				out[k] = nil
			}
		}
		return out
	}
	inner := func() any {
		out := m(map[string]func() any{"id": word, "v": number})
		if r.Intn(20) > 0 {
			out["id"] = word() // without it the item has no key
		}
		return out
	}
	part := func() any {
		return m(map[string]func() any{"name": word, "port": number, "size": number, "inner": func() any { return some(2, inner) }})
	}
	anything := func() any {
		return []any{"x", number(), true, nil, []any{"y", number()}, map[string]any{"z": word(), "n": map[string]any{}}}[r.Intn(6)]
	}
	out := m(map[string]func() any{
		"spec": func() any {
			return m(map[string]func() any{
				"mode": word, "count": number, "ratio": func() any { return float64(r.Intn(3)) / 2 }, "on": func() any { return r.Intn(2) == 0 },
				"port":  func() any { return []any{word(), number()}[r.Intn(2)] },
				"free":  func() any { return m(map[string]func() any{"a": anything, "b": anything, "c": anything}) },
				"whole": func() any { return m(map[string]func() any{"a": word, "b": number}) },
				"tags":  func() any { return some(4, word) }, "numbers": func() any { return some(4, number) },
				"list":  func() any { return some(2, func() any { return m(map[string]func() any{"a": word}) }) },
				"parts": func() any { return some(4, part) },
			})
		},
		"status": func() any {
			return m(map[string]func() any{"phase": word, "seen": func() any { return m(map[string]func() any{"a": number, "b": number}) }})
		},
	})
	out["metadata"] = map[string]any{"name": "w", "labels": map[string]any{"l": word()}}
	return out
}

// sameItem reports whether two items have the same place in a set or a list with keys.
func sameItem(x, y any) bool {
	a, ok := x.(map[string]any)
	if !ok {
		return x == y
	}
	b := y.(map[string]any)
	return a["name"] == b["name"] && a["port"] == b["port"] && a["id"] == b["id"]
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

type widgetSubject struct {
	t         testing.TB
	rand      *rand.Rand
	ours      *Manager
	oracle    *managedfields.FieldManager
	kind      schema.GroupVersionKind
	live      *unstructured.Unstructured
	fallbacks map[string]int
	steps     int
}

func newWidgetSubject(t testing.TB, types managedfields.TypeConverter, seed int64) *widgetSubject {
	s := &widgetSubject{t: t, rand: rand.New(rand.NewSource(seed)), kind: widgetV1, fallbacks: map[string]int{}}
	reset := map[fieldpath.APIVersion]*fieldpath.Set{"example.com/v1": fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
	var err error
	s.ours, err = New(Config{Scheme: widgetScheme{}, Kind: s.kind, Hub: s.kind.GroupVersion(), Types: types, ResetFields: reset,
		Fallback: func(reason string) { s.fallbacks[reason]++ }})
	if err != nil {
		t.Fatal(err)
	}
	s.oracle, err = managedfields.NewDefaultCRDFieldManager(types, widgetScheme{}, widgetScheme{}, widgetScheme{}, s.kind, s.kind.GroupVersion(), "",
		fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *widgetSubject) step() {
	s.steps++
	u := &unstructured.Unstructured{Object: randomWidget(s.rand)}
	u.SetGroupVersionKind(s.kind)
	manager := fmt.Sprintf("m%d", s.rand.Intn(4))
	force := s.rand.Intn(3) > 0
	live := s.live
	if live == nil {
		live = &unstructured.Unstructured{Object: map[string]any{}}
		live.SetGroupVersionKind(s.kind)
	}
	apply := s.rand.Intn(2) == 0
	if !apply && s.live != nil {
		u.SetUID("uid")
		if s.rand.Intn(2) == 0 {
			u.SetManagedFields(live.GetManagedFields())
		}
	}
	type manages interface {
		Apply(live, patch runtime.Object, manager string, force bool) (runtime.Object, error)
		UpdateNoErrors(live, obj runtime.Object, manager string) runtime.Object
	}
	run := func(m manages) (runtime.Object, error) {
		before := live.DeepCopy()
		defer func() {
			if diff := cmp.Diff(before, live); diff != "" {
				s.t.Errorf("live was changed: %s", diff)
			}
		}()
		if apply {
			return m.Apply(live, u.DeepCopy(), manager, force)
		}
		return m.UpdateNoErrors(live, u.DeepCopy(), manager), nil
	}
	var want, got runtime.Object
	var wantErr, gotErr error
	for second := int64(-1); second != time.Now().Unix(); {
		second = time.Now().Unix()
		got, gotErr = run(ours{s.ours})
		want, wantErr = run(s.oracle)
	}
	if diff := cmp.Diff(describe(wantErr), describe(gotErr)); diff != "" {
		s.t.Fatalf("apply=%v: errors differ (-upstream +ours):\n%s", apply, diff)
	}
	if wantErr != nil {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		before, _ := json.Marshal(live)
		input, _ := json.Marshal(u)
		s.t.Fatalf("apply=%v: objects differ (-upstream +ours):\n%s\nlive: %s\ninput: %s", apply, diff, before, input)
	}
	s.live = want.(*unstructured.Unstructured)
	s.live.SetUID("uid")
	entries := s.live.GetManagedFields()
	for i := range entries {
		if t := entries[i].Time; t != nil && time.Since(t.Time) < time.Minute {
			entries[i].Time = &metav1.Time{Time: t.Add(-time.Duration(100+s.rand.Intn(4)) * time.Second)}
		}
	}
	s.live.SetManagedFields(entries)
}

// TestCustomResourcesAgreeWithUpstream is TestAgreesWithUpstream for objects that are maps.
func TestCustomResourcesAgreeWithUpstream(t *testing.T) {
	for name, types := range map[string]managedfields.TypeConverter{"schema": widgetTypes(t), "no schema": managedfields.NewDeducedTypeConverter()} {
		t.Run(name, func(t *testing.T) {
			fallbacks, steps, left := map[string]int{}, 0, 0
			for seed := range int64(200) {
				s := newWidgetSubject(t, types, seed)
				for range 8 {
					s.step()
				}
				steps += s.steps
				for reason, n := range s.fallbacks {
					fallbacks[reason] += n
					left += n
				}
			}
			t.Logf("%d writes, left to upstream: %v", steps, fallbacks)
			if left*2 > steps {
				t.Errorf("%d of %d writes were left to upstream", left, steps)
			}
		})
	}
}

// forgetful is a Keeper that keeps nothing.
type forgetful struct {
	managedfields.TypeConverter
	asked int
}

func (f *forgetful) Keep(_ any, build func() (any, error)) (any, error) {
	f.asked++
	return build()
}

// A manager's compiled schema can be dropped between any two writes.
func TestSchemaIsKeptByTypes(t *testing.T) {
	t.Cleanup(fastpath.ManagedFields.Turn(true))
	types := &forgetful{TypeConverter: widgetTypes(t)}
	now := time.Unix(1, 0)
	var made []runtime.Object
	for _, types := range []managedfields.TypeConverter{types, types.TypeConverter} {
		m, err := New(Config{Scheme: widgetScheme{}, Kind: widgetV1, Hub: widgetV1.GroupVersion(), Types: types, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		w := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"mode": "manual"}}}
		w.SetGroupVersionKind(widgetV1)
		live := m.Create(w, "one")
		patch := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"mode": "auto"}}}
		patch.SetGroupVersionKind(widgetV1)
		out, err := m.Apply(live, patch, "two", true)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, out)
	}
	if diff := cmp.Diff(made[1], made[0]); diff != "" {
		t.Error(diff)
	}
	if types.asked != 2 {
		t.Errorf("the schema was asked for %d times in two writes", types.asked)
	}
}
