package main

import (
	"context"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// servedTypes are the types that a server serves, in the order of its discovery.
type servedTypes []apidiscoveryv2.APIGroupDiscovery

// discovered is the media type of aggregated discovery, which has all groups.
const discovered = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// servedTypes requests the discovery of the server. Errors: those of requests.
func (c *adminClient) servedTypes(ctx context.Context) (s servedTypes, err error) {
	for _, path := range []string{"/api", "/apis"} {
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := c.doAs(ctx, discovered, http.MethodGet, path, nil, &list); err != nil {
			return nil, err
		}
		s = append(s, list.Items...)
	}
	return s, nil
}

// has tells whether a group is served.
func (s servedTypes) has(group string) bool {
	return slices.ContainsFunc(s, func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == group })
}

// find returns the first resource with a name in one of kubectl's forms, outside of one group. As in kubectl, plurals and singulars take
// precedence over short names, and kinds come last. ok is false when there is none.
func (s servedTypes) find(name, butGroup string) (resource schema.GroupResource, namespaced, ok bool) {
	for _, names := range []func(*apidiscoveryv2.APIResourceDiscovery) []string{fullNames, shortNames, kinds} {
		for _, g := range s {
			for _, v := range g.Versions {
				for i := range v.Resources {
					r := &v.Resources[i]
					if g.Name != butGroup && isNamed(names(r), schema.GroupVersion{Group: g.Name, Version: v.Version}, name) {
						return schema.GroupResource{Group: g.Name, Resource: r.Resource}, r.Scope == apidiscoveryv2.ScopeNamespace, true
					}
				}
			}
		}
	}
	return schema.GroupResource{}, false, false
}

func fullNames(r *apidiscoveryv2.APIResourceDiscovery) []string {
	return []string{r.Resource, r.SingularResource}
}

func shortNames(r *apidiscoveryv2.APIResourceDiscovery) []string { return r.ShortNames }

func kinds(r *apidiscoveryv2.APIResourceDiscovery) []string {
	if r.ResponseKind == nil {
		return nil
	}
	return []string{r.ResponseKind.Kind}
}

// isNamed tells whether name is one of names, alone or followed by a dot and the group, or the version and the group.
func isNamed(names []string, gv schema.GroupVersion, name string) bool {
	return slices.ContainsFunc(names, func(known string) bool {
		return known != "" && slices.ContainsFunc([]string{known, known + "." + gv.Group, known + "." + gv.Version + "." + gv.Group}, func(form string) bool {
			return strings.EqualFold(form, name)
		})
	})
}
