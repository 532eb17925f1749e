package behind_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// Decoded Services are kept, and those that are gone do not stay for ever.
func TestCacheIsBounded(t *testing.T) {
	store, registry := sqlitetest.Open(t), resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	typ, _ := registry.Catalog().Type(behind.ServicesResource)
	l := behind.New(store, registry)
	decoded := map[string]*v1.Service{}
	for i := range 600 {
		obj := &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("s", i)}}
		draft, err := typ.NewDraft(t.Context(), obj)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(t.Context(), resources.Write{Op: resources.Create, Key: typ.KeyOf("a", obj.Name), Draft: draft}); err != nil {
			t.Fatal(err)
		}
		first, err := l.Service("a", obj.Name)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := l.Service("a", obj.Name); err != nil || again != first {
			t.Fatalf("%s was decoded again: %v", obj.Name, err)
		}
		decoded[obj.Name] = first
	}
	kept := 0
	for name, first := range decoded {
		if again, err := l.Service("a", name); err == nil && again == first {
			kept++
		}
	}
	if kept > 256 {
		t.Errorf("%d are kept", kept)
	}
}

// A request reads by its own types, also when they are served no longer.
func TestTypesOfTheRequest(t *testing.T) {
	store, registry := sqlitetest.Open(t), resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	services, _ := registry.Catalog().Type(behind.ServicesResource)
	slices, _ := registry.Catalog().Type(behind.SlicesResource)
	for typ, obj := range map[*resources.Type]runtime.Object{
		services: &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}},
		slices: &discovery.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
			AddressType: discovery.AddressTypeIPv4},
	} {
		draft, err := typ.NewDraft(t.Context(), obj)
		if err != nil {
			t.Fatal(err)
		}
		draft.Labels = obj.(metav1.Object).GetLabels()
		if _, err := store.Commit(t.Context(), resources.Write{Op: resources.Create, Key: typ.KeyOf("a", "s"), Draft: draft}); err != nil {
			t.Fatal(err)
		}
	}
	l := behind.New(store, registry).With(resources.WithCatalog(t.Context(), registry.Catalog()), resources.At{Match: resources.Any})
	registry.RemoveGroup("")
	registry.RemoveGroup("discovery.k8s.io")
	if s, err := l.Service("a", "s"); err != nil || s.Name != "s" {
		t.Errorf("the Service: %v, %v", s, err)
	}
	if all, err := l.GetEndpointSlices("a", "s"); err != nil || len(all) != 1 {
		t.Errorf("the EndpointSlices: %v, %v", all, err)
	}
}
