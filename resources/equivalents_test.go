package resources_test

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// mapperSeen is an admission plugin that keeps the mapper of equivalent resources that it got.
type mapperSeen struct {
	mapper runtime.EquivalentResourceMapper
}

func (*mapperSeen) Handles(admission.Operation) bool { return true }

func (m *mapperSeen) Validate(_ context.Context, _ admission.Attributes, o admission.ObjectInterfaces) error {
	m.mapper = o.GetEquivalentResourceMapper()
	return nil
}

// Plugins get the versions and names under which the objects of a resource are served, by the catalog of the request.
func TestEquivalentResources(t *testing.T) {
	w := newWay(t)
	m := &mapperSeen{}
	w.Use(m, nil)
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	maps := w.typeOf("configmaps")
	ctx := resources.WithCatalog(w.request("create", maps, "x"), registry.Catalog())
	if _, err := w.Create(ctx, &resources.CreateRequest{Type: maps, Object: w.config("x")}); err != nil {
		t.Fatal(err)
	}
	gvr := func(group, version, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	}
	events := []schema.GroupVersionResource{gvr("", "v1", "events"), gvr("events.k8s.io", "v1", "events")}
	for _, c := range []struct {
		of          schema.GroupVersionResource
		subresource string
		want        []schema.GroupVersionResource
		kind        string
	}{
		{gvr("autoscaling", "v1", "horizontalpodautoscalers"), "", []schema.GroupVersionResource{gvr("autoscaling", "v2", "horizontalpodautoscalers"),
			gvr("autoscaling", "v1", "horizontalpodautoscalers")}, "autoscaling/v1, Kind=HorizontalPodAutoscaler"},
		{gvr("autoscaling", "v2", "horizontalpodautoscalers"), "status", []schema.GroupVersionResource{gvr("autoscaling", "v2", "horizontalpodautoscalers"),
			gvr("autoscaling", "v1", "horizontalpodautoscalers")}, "autoscaling/v2, Kind=HorizontalPodAutoscaler"},
		{events[0], "", events, "/v1, Kind=Event"},
		{events[1], "", events, "events.k8s.io/v1, Kind=Event"},
		{gvr("apps", "v1", "deployments"), "scale", []schema.GroupVersionResource{gvr("apps", "v1", "deployments")}, "autoscaling/v1, Kind=Scale"},
		{gvr("apps", "v1", "deployments"), "none", nil, "/, Kind="},
		{gvr("apps", "v2", "deployments"), "", nil, "/, Kind="},
	} {
		if got := m.mapper.EquivalentResourcesFor(c.of, c.subresource); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: equivalent to %v, want %v", c.of, c.subresource, got, c.want)
		}
		if got := m.mapper.KindFor(c.of, c.subresource).String(); got != c.kind {
			t.Errorf("%s %s: %s, want %s", c.of, c.subresource, got, c.kind)
		}
	}
}
