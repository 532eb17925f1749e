package builtin

import (
	"context"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	crdfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apitesting "k8s.io/kubernetes/pkg/api/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/rowlock/rowlock/resources"
)

// forEachType runs a test for every served type, only for stored ones when stored is set.
func forEachType(t *testing.T, stored bool, f func(t *testing.T, s *resources.Served)) {
	for _, g := range catalog(t).Groups() {
		for _, v := range g.Versions {
			for _, s := range v.Resources {
				if stored && !s.Stored() {
					continue
				}
				t.Run(v.GroupVersion.String()+"/"+s.Resource, func(t *testing.T) { f(t, s) })
			}
		}
	}
}

func filler(seed int64) *randfill.Filler {
	return fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(apitesting.FuzzerFuncs, crdfuzzer.Funcs), rand.NewSource(seed), Codecs)
}

// fuzzed makes a random valid object of the type in the hub form, at revision 7.
func fuzzed(t *testing.T, f *randfill.Filler, typ *resources.Type) runtime.Object {
	t.Helper()
	obj := typ.New()
	f.Fill(obj)
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	m.SetSelfLink("") // is not stored
	if !typ.Namespaced {
		m.SetNamespace("")
	}
	m.SetResourceVersion("7")
	return obj
}

// TestRoundTrip takes random objects through the served version and through the store, and expects them unchanged.
func TestRoundTrip(t *testing.T) {
	forEachType(t, true, func(t *testing.T, s *resources.Served) {
		f := filler(1)
		for range 20 {
			hub := fuzzed(t, f, s.Type)

			versioned, err := s.ToVersion(hub.DeepCopyObject(), s.GroupVersion())
			if err != nil {
				t.Fatal(err)
			}
			if got := versioned.GetObjectKind().GroupVersionKind(); got != s.GroupVersionKind {
				t.Fatalf("converted to %v, want %v", got, s.GroupVersionKind)
			}
			back, err := s.ToHub(versioned.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			same(t, "through "+s.GroupVersion().String(), hub, back)

			draft, err := s.NewDraft(t.Context(), back)
			if err != nil {
				t.Fatal(err)
			}
			m, _ := meta.Accessor(hub)
			o := resources.NewObject(s.KeyOf(m.GetNamespace(), m.GetName()), draft, 7)
			decoded, err := s.DecodeHub(o)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "through the store", hub, decoded)
		}
	})
}

func same(t *testing.T, how string, want, got runtime.Object) {
	t.Helper()
	if !apiequality.Semantic.DeepEqual(want, got) {
		t.Fatalf("changed %s (-before +after):\n%s", how, cmp.Diff(want, got, cmp.Exporter(func(_ reflect.Type) bool { return true })))
	}
}

// TestRulesAreComplete: every stored type has the rules that the request flow uses without checking for nil.
func TestRulesAreComplete(t *testing.T) {
	forEachType(t, true, func(t *testing.T, s *resources.Served) {
		if s.CreateStrategy == nil || s.UpdateStrategy == nil || s.DeleteStrategy == nil {
			t.Fatal("a strategy is missing")
		}
		if got := s.CreateStrategy.NamespaceScoped(); got != s.Namespaced {
			t.Errorf("Namespaced is %v, its strategy says %v", s.Namespaced, got)
		}
		if _, ok := s.NewList().(metav1.ListInterface); !ok {
			t.Errorf("%T is no list", s.NewList())
		}
		for name, sub := range s.Subresources {
			if name != sub.Name {
				t.Errorf("subresource %q is called %q", name, sub.Name)
			}
			if sub.Connect != nil || sub.Stream != nil {
				continue // another server answers it
			}
			updates := sub.UpdateStrategy != nil
			if served := sub.HasVerb("update"); served != updates {
				t.Errorf("%s: served for update: %v, has a strategy for it: %v", name, served, updates)
			}
			if served := sub.HasVerb("create"); served != (sub.Create != nil) {
				t.Errorf("%s: served for create: %v, has a function for it: %v", name, served, sub.Create != nil)
			}
		}
	})
}

// TestSelectableFields: a client can use in a fieldSelector exactly the fields by which an object of the type can be
// matched.
func TestSelectableFields(t *testing.T) {
	// Every field of any type is tried on every type, and so are the names that events.k8s.io gives its fields.
	tried := map[string]bool{"regarding.kind": true, "regarding.name": true, "regarding.namespace": true, "regarding.uid": true,
		"regarding.apiVersion": true, "regarding.resourceVersion": true, "regarding.fieldPath": true, "reportingController": true}
	forEachType(t, true, func(t *testing.T, s *resources.Served) {
		for field := range attrs(t, s) {
			tried[field] = true
		}
	})
	accepted := 0
	forEachType(t, true, func(t *testing.T, s *resources.Served) {
		set := attrs(t, s)
		for field := range tried {
			internal, _, err := s.Scheme.ConvertFieldLabel(s.GroupVersionKind, field, "")
			if err != nil || internal == "metadata.namespace" && !s.Namespaced {
				continue
			}
			accepted++
			if _, ok := set[internal]; !ok {
				t.Errorf("a client can select by %s, and no object has the field %s", field, internal)
			}
		}
	})
	if accepted < 100 {
		t.Errorf("only %d fields were accepted", accepted)
	}
}

// attrs are the selectable fields of a random object.
func attrs(t *testing.T, s *resources.Served) fields.Set {
	t.Helper()
	obj := fuzzed(t, filler(2), s.Type)
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	_, set, err := s.Attrs(obj)
	if err != nil {
		t.Fatal(err)
	}
	if set["metadata.name"] != m.GetName() || set["metadata.namespace"] != m.GetNamespace() {
		t.Errorf("selectable fields %v lack the name or the namespace", set)
	}
	return set
}

// TestTables prints a list of one object of every type.
func TestTables(t *testing.T) {
	forEachType(t, true, func(t *testing.T, s *resources.Served) {
		list := s.NewList()
		if err := meta.SetList(list, []runtime.Object{fuzzed(t, filler(3), s.Type)}); err != nil {
			t.Fatal(err)
		}
		table, err := s.Table.ConvertToTable(context.Background(), list, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(table.Rows) != 1 || len(table.ColumnDefinitions) == 0 || len(table.Rows[0].Cells) < len(table.ColumnDefinitions) {
			t.Errorf("table has %d rows, %d columns", len(table.Rows), len(table.ColumnDefinitions))
		}
	})
}

// Events are kept for an hour, or for the configured time in whole seconds, in both groups that show them.
func TestEventTTL(t *testing.T) {
	for asked, want := range map[*time.Duration]time.Duration{nil: time.Hour, ptr.To(time.Minute): time.Minute, new(time.Duration): 0,
		ptr.To(1900 * time.Millisecond): time.Second, ptr.To(900 * time.Millisecond): 0} {
		found := 0
		for _, g := range (Parts{EventTTL: asked}).Groups() {
			for _, v := range g.Versions {
				for _, typ := range v.Types {
					if typ.Resource != "events" {
						continue
					}
					if found++; typ.TTL(nil) != want {
						t.Errorf("events of %s are kept for %s, want %s", g.Name, typ.TTL(nil), want)
					}
				}
			}
		}
		if found != 2 {
			t.Errorf("events are in %d groups", found)
		}
	}
}
