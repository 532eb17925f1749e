package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources/custom"
)

// servedFor finds the version and the resource in which an object is written. If the version in which a custom resource was stored is no longer
// served, the object is changed to another one, provided that its definition converts by changing apiVersion alone.
func (t *takeBack) servedFor(ctx context.Context, p *part) (gv schema.GroupVersion, plural string, served *servedResources, err error) {
	plural, _, _ = strings.Cut(p.resource, ".")
	gv, served, err = t.servedIn(ctx, p, plural)
	if errors.Is(err, errNotServed) && !(t.dryRun && t.defines[p.resource]) { // the definition of the backup may serve that version
		if err = t.toServed(ctx, p, err); err == nil {
			gv, served, err = t.servedIn(ctx, p, plural)
		}
	}
	if err != nil {
		return gv, plural, nil, err
	}
	if namespaced := served.byName[plural].Namespaced; namespaced != (p.object.GetNamespace() != "") {
		now := "without namespaces"
		if namespaced {
			now = "in namespaces"
		}
		return gv, plural, nil, errors.New("the server serves " + p.resource + " " + now + " now")
	}
	return gv, plural, served, nil
}

// servedIn returns the resources of the version of an object, if its own is one of them.
func (t *takeBack) servedIn(ctx context.Context, p *part, plural string) (schema.GroupVersion, *servedResources, error) {
	gv, err := schema.ParseGroupVersion(p.object.GetAPIVersion())
	if err != nil {
		return gv, nil, err
	}
	served, err := t.served(ctx, gv)
	if apierrors.IsNotFound(err) {
		return gv, nil, fmt.Errorf("%w %s", errNotServed, gv)
	}
	if err != nil {
		return gv, nil, err
	}
	if _, ok := served.byName[plural]; !ok {
		return gv, nil, fmt.Errorf("%w %s in %s", errNotServed, plural, gv)
	}
	return gv, served, nil
}

// toServed changes a custom resource to a version that its definition serves. It returns notServed, with the remedy, if the definition does not allow it.
func (t *takeBack) toServed(ctx context.Context, p *part, notServed error) error {
	var definition apiextensionsv1.CustomResourceDefinition
	plural, group, _ := strings.Cut(custom.Resource, ".")
	path := pathOf(schema.GroupVersion{Group: group, Version: "v1"}, "", plural) + "/" + p.resource
	switch err := t.client.do(ctx, http.MethodGet, path, nil, &definition); {
	case apierrors.IsNotFound(err): // it is no custom resource, or one without its definition
		return notServed
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: whether it can be written in another version is in its definition: %w", notServed, err)
	case err != nil:
		return err
	}
	version := ""
	for _, v := range definition.Spec.Versions {
		if v.Served && (version == "" || v.Storage) {
			version = v.Name
		}
	}
	if version == "" {
		return notServed
	}
	if c := definition.Spec.Conversion; c != nil && c.Strategy != apiextensionsv1.NoneConverter {
		return fmt.Errorf("%w, and a webhook converts it: set served of that version in the definition of %s for as long as the restore takes", notServed, p.resource)
	}
	was := p.object.GetAPIVersion()
	p.version = version
	p.object.SetAPIVersion(definition.Spec.Group + "/" + version)
	managed := p.object.GetManagedFields()
	for i := range managed {
		if managed[i].APIVersion == was {
			managed[i].APIVersion = p.object.GetAPIVersion()
		}
	}
	p.object.SetManagedFields(managed)
	return nil
}
