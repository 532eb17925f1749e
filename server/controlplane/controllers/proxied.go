package controllers

import (
	"context"
	"errors"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// apiServiceOf is the name of the APIService of a version.
func apiServiceOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// hasService tells whether a stored APIService has a Service.
func hasService(o *resources.Object) bool {
	return !strings.HasSuffix(o.Name, ".") && gjson.GetBytes(o.Data, "spec.service").IsObject()
}

// wasProxied tells whether a change of an APIService ends the proxying of its version.
func wasProxied(e *resources.Event) bool {
	return e.Object.Resource == apiServicesResource && (e.Op == resources.Delete || e.Prev != nil && hasService(e.Prev) && !hasService(e.Object))
}

// isProxied tells whether an APIService has a Service: requests for its version are proxied to another server. This server may have objects of such a
// version, of a CustomResourceDefinition for one, but no client sees them: they say nothing about the objects that clients see. The core group is never
// proxied.
func isProxied(ctx context.Context, store resources.Reader, apiService string, match resources.Match) (bool, error) {
	o, err := store.Get(ctx, resources.Key{Resource: apiServicesResource, Name: apiService}, resources.At{Match: match})
	if errors.Is(err, resources.ErrNotFound) {
		return false, nil
	}
	return err == nil && hasService(o), err
}
