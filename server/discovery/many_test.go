package discovery

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// After a change of one of a thousand groups, only the entry of that group is rebuilt, and the JSON joined from all entries equals that of the
// encoder.
func TestOneOfManyGroups(t *testing.T) {
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	set := func(e *resources.Edit, i int, short ...string) {
		toy, err := untypedtest.Versions()[0].Type()
		if err != nil {
			t.Fatal(err)
		}
		toy.Group, toy.ShortNames = fmt.Sprintf("g%d.example.org", i), short
		toy.StorageVersion.Group = toy.Group
		e.SetType(toy.StorageVersion, 1000, 100, toy)
	}
	registry.Edit(func(e *resources.Edit) {
		for i := range 1000 {
			set(e, i)
		}
	})
	h := New(registry, Options{})
	get := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/apis", nil)
		r.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		n, err := h.negotiate(r, allowAggregated)
		if err != nil {
			t.Fatal(err)
		}
		made, err := registry.Catalog().Memo(aggregatedKey{groupsRoot}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := encode(n, made.(*aggregated).doc); err != nil || w.Body.String() != string(want) {
			t.Errorf("%v: %.300s, want %.300s", err, w.Body, want)
		}
		return w
	}
	first := get()
	described := h.described.Load()
	registry.Edit(func(e *resources.Edit) { set(e, 7, "seven") })
	if second := get(); second.Header().Get("ETag") == first.Header().Get("ETag") || second.Body.Len() <= first.Body.Len() {
		t.Error("a change shows nowhere")
	}
	if n := h.described.Load() - described; n != 1 {
		t.Errorf("one change described %d groups anew", n)
	}
	registry.Edit(func(e *resources.Edit) { set(e, 7) })
	if third := get(); third.Header().Get("ETag") != first.Header().Get("ETag") {
		t.Error("the same document has another ETag")
	}
}
