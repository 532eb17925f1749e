package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/rowlock/rowlock/resources"
)

// proxied are the APIServices that have a Service, by name: requests for their versions are proxied to another server. This server may have objects of
// such a version, of a CustomResourceDefinition for one, but no client sees them: they say nothing about the objects that clients see. The core group
// and that of APIServices are never proxied.
type proxied map[string]bool

// apiServiceOf is the name of the APIService of a version.
func apiServiceOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// hasService tells whether a stored APIService has a Service, and is of a group that can be proxied.
func hasService(o *resources.Object) bool {
	_, group, _ := strings.Cut(o.Name, ".")
	return group != "" && group != apiregistrationv1.GroupName && gjson.GetBytes(o.Data, "spec.service").IsObject()
}

// proxiedAround tells whether the version of an APIService is proxied before and after a change of the APIService. Most changes are of conditions.
func proxiedAround(e *resources.Event) (before, after bool) {
	if e.Op == resources.Delete {
		return hasService(e.Object), false
	}
	return e.Prev != nil && hasService(e.Prev), hasService(e.Object)
}

// wasProxied tells whether a change of an APIService ends the proxying of its version.
func wasProxied(e *resources.Event) bool {
	if e.Object.Resource != apiServicesResource {
		return false
	}
	before, after := proxiedAround(e)
	return before && !after
}

// readProxied reads the APIServices that have a Service.
func readProxied(ctx context.Context, store resources.Reader) (proxied, error) {
	s, err := store.Snapshot(ctx, apiServicesResource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, err
	}
	all := proxied{}
	s.Ascend("", "", func(o *resources.Object) bool {
		if hasService(o) {
			all[o.Name] = true
		}
		return true
	})
	return all, nil
}

// isProxied tells whether an APIService has a Service in the state at hand.
func isProxied(ctx context.Context, store resources.Reader, apiService string) (bool, error) {
	o, err := store.Get(ctx, resources.Key{Resource: apiServicesResource, Name: apiService}, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		return false, nil
	}
	return err == nil && hasService(o), err
}

// every tells whether all served versions of a resource are proxied.
func (p proxied) every(c *resources.Catalog, of schema.GroupResource) (all bool) {
	if len(p) == 0 {
		return false
	}
	g, ok := c.Group(of.Group)
	if !ok || !slices.ContainsFunc(g.Versions, func(v *resources.Version) bool { return p[apiServiceOf(v.GroupVersion)] }) {
		return false
	}
	for _, v := range g.Versions {
		if slices.ContainsFunc(v.Resources, func(s *resources.Served) bool { return s.Resource == of.Resource }) {
			if !p[apiServiceOf(v.GroupVersion)] {
				return false
			}
			all = true
		}
	}
	return all
}
