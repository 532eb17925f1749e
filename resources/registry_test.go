package resources

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var widgetsV1 = schema.GroupVersion{Group: "example.org", Version: "v1"}

func widgetType(form string) *Type {
	return &Type{GroupResource: schema.GroupResource{Group: "example.org", Resource: "widgets"}, Kind: "Widget", Form: form, StorageVersion: widgetsV1}
}

func gadgetType() *Type {
	return &Type{GroupResource: schema.GroupResource{Group: "example.org", Resource: "gadgets"}, Kind: "Gadget", StorageVersion: widgetsV1}
}

func (r *Registry) set(gv schema.GroupVersion, types ...*Type) {
	r.Edit(func(e *Edit) {
		for _, t := range types {
			e.SetType(gv, 1000, 100, t)
		}
	})
}

func (r *Registry) mustLookup(t *testing.T, gv schema.GroupVersion, resource string) *Served {
	t.Helper()
	s, ok := r.Catalog().Lookup(gv.WithResource(resource))
	if !ok {
		t.Fatalf("%s is not served in %s", resource, gv)
	}
	return s
}

func ended(s *Served) bool {
	select {
	case <-s.Ended():
		return true
	default:
		return false
	}
}

// The groups that a change does not touch stay the same, with all results derived from them.
func TestServedOutlivesWhatDoesNotConcernIt(t *testing.T) {
	r := NewRegistry()
	r.set(widgetsV1, widgetType(""))
	r.set(schema.GroupVersion{Group: "other.org", Version: "v1"}, &Type{GroupResource: schema.GroupResource{Group: "other.org", Resource: "things"}})
	before := r.mustLookup(t, widgetsV1, "widgets")
	if _, err := before.Memo("k", func() (any, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	r.set(widgetsV1, gadgetType())
	r.RemoveGroup("other.org")
	after := r.mustLookup(t, widgetsV1, "widgets")
	if after != before || ended(before) {
		t.Fatalf("it is another after others came and went (ended: %v)", ended(before))
	}
	if v, _ := after.Memo("k", func() (any, error) { return 2, nil }); v != 1 {
		t.Errorf("what was derived from it is %v", v)
	}
}

// A type that shows the same bytes replaces another one without ending it; any other ends it.
func TestEndOfServed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Registry)
		ends   bool
	}{
		{"the same form", func(r *Registry) { r.set(widgetsV1, widgetType("a")) }, false},
		{"another form", func(r *Registry) { r.set(widgetsV1, widgetType("b")) }, true},
		{"no form", func(r *Registry) { r.set(widgetsV1, widgetType("")) }, true},
		{"removed", func(r *Registry) {
			r.Edit(func(e *Edit) { e.RemoveType(widgetsV1.WithResource("widgets")) })
		}, true},
		{"removed and set in one edit", func(r *Registry) {
			r.Edit(func(e *Edit) {
				e.RemoveType(widgetsV1.WithResource("widgets"))
				e.SetType(widgetsV1, 1000, 100, widgetType("a"))
			})
		}, false},
		{"a further version", func(r *Registry) { r.set(schema.GroupVersion{Group: "example.org", Version: "v2"}, widgetType("c")) }, false},
		{"the group removed", func(r *Registry) { r.RemoveGroup("example.org") }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRegistry()
			r.set(widgetsV1, widgetType("a"))
			s := r.mustLookup(t, widgetsV1, "widgets")
			c.change(r)
			if got := ended(s); got != c.ends {
				t.Errorf("ended is %v", got)
			}
		})
	}
}

// The type with a name in the store is that of the storage version, and is removed with the last version.
func TestStoredTypeOfVersions(t *testing.T) {
	r, v2 := NewRegistry(), schema.GroupVersion{Group: "example.org", Version: "v2"}
	one, two := widgetType(""), widgetType("")
	r.set(v2, two)
	r.set(widgetsV1, one)
	if got, ok := r.Catalog().Type("widgets.example.org"); !ok || got != one {
		t.Errorf("the type is not that of the stored version: %v", got)
	}
	if s := r.mustLookup(t, v2, "widgets"); s.Type != two || fmt.Sprint(s.Versions) != "[example.org/v2 example.org/v1]" {
		t.Errorf("v2 is served by %p (want %p) in %v", s.Type, two, s.Versions)
	}
	r.Edit(func(e *Edit) { e.RemoveType(widgetsV1.WithResource("widgets")) })
	if got, ok := r.Catalog().Type("widgets.example.org"); !ok || got != two {
		t.Errorf("the type is not that of the version which is left: %v", got)
	}
	r.Edit(func(e *Edit) { e.RemoveType(v2.WithResource("widgets")) })
	if _, ok := r.Catalog().Group("example.org"); ok || len(r.Catalog().Groups()) != 0 || len(slices.Collect(r.Catalog().Types)) != 0 {
		t.Error("the group is still there without its types")
	}
}

// An edit sees its own changes, and others see all of it or nothing.
func TestEditIsOneStep(t *testing.T) {
	r := NewRegistry()
	before := r.Catalog()
	r.Edit(func(e *Edit) {
		e.SetType(widgetsV1, 1000, 100, widgetType(""))
		e.SetType(widgetsV1, 1000, 100, gadgetType())
		if r.Catalog() != before {
			t.Error("others see half of it")
		}
	})
	select {
	case <-before.Replaced():
	default:
		t.Error("the catalog before is not marked as replaced")
	}
	if g, _ := r.Catalog().Group("example.org"); len(g.Versions) != 1 || len(g.Versions[0].Resources) != 2 {
		t.Errorf("the group is %+v", g)
	}
	if len(before.Groups()) != 0 {
		t.Error("a catalog has changed")
	}
}

// BenchmarkSetType: adding a type costs the same among many as among few, except for a copy of the list of groups.
func BenchmarkSetType(b *testing.B) {
	for _, types := range []int{10, 1000} {
		b.Run(fmt.Sprint(types), func(b *testing.B) {
			r := NewRegistry()
			r.Edit(func(e *Edit) {
				for i := range types {
					group := fmt.Sprintf("g%d.example.org", i)
					e.SetType(schema.GroupVersion{Group: group, Version: "v1"}, 1000, 100, &Type{GroupResource: schema.GroupResource{Group: group, Resource: "things"}})
				}
			})
			for b.Loop() {
				r.set(widgetsV1, widgetType(""))
			}
		})
	}
}

// A hidden type is found by its names, and is not among the versions and groups of discovery. It stays when others come and go.
func TestHiddenType(t *testing.T) {
	r := NewRegistry()
	hidden := widgetType("")
	hidden.Hidden = true
	shown := func() (all []string) {
		for _, g := range r.Catalog().Groups() {
			for _, v := range g.Versions {
				for _, s := range v.Resources {
					all = append(all, v.String()+" "+s.Resource)
				}
			}
		}
		return all
	}
	r.set(widgetsV1, hidden)
	if _, typed := r.Catalog().Type(hidden.ResourceName()); !typed || len(r.Catalog().Groups()) > 0 || r.Catalog().Serves(widgetsV1) {
		t.Errorf("alone: has the type: %v, groups: %v", typed, shown())
	}
	r.set(widgetsV1, gadgetType())
	r.set(schema.GroupVersion{Group: "example.org", Version: "v2"}, hidden)
	if got := shown(); !slices.Equal(got, []string{"example.org/v1 gadgets"}) {
		t.Errorf("beside another type: %v", got)
	}
	if got := r.mustLookup(t, widgetsV1, "widgets").Versions; len(got) != 2 {
		t.Errorf("its versions are %v", got)
	}
	before := r.mustLookup(t, schema.GroupVersion{Group: "example.org", Version: "v2"}, "widgets")
	r.Edit(func(e *Edit) { e.RemoveType(widgetsV1.WithResource("gadgets")) })
	if r.mustLookup(t, schema.GroupVersion{Group: "example.org", Version: "v2"}, "widgets") != before || len(shown()) > 0 {
		t.Errorf("without the other type: %v", shown())
	}
}
