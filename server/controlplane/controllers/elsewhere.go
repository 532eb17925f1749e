package controllers

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Elsewhere gives access to namespaced objects of other servers: those of the APIServices with a Service. The errors that servers
// answer are *apierrors.StatusError.
type Elsewhere interface {
	// Namespaced returns the namespaced resources that these servers serve, once each, with group and version. unknown has the
	// versions whose resources are not known because their servers do not answer, with the reason. Errors: those of resources.Reader.
	Namespaced(ctx context.Context) (found []metav1.APIResource, unknown map[schema.GroupVersion]error, err error)
	// List returns a page of the metadata of objects in a namespace, as the user who; next is the continue token of the page before.
	List(ctx context.Context, who user.Info, gvr schema.GroupVersionResource, namespace, next string) (*metav1.PartialObjectMetadataList, error)
	// Delete deletes an object, or, with an empty name, all objects in the namespace, with background propagation.
	Delete(ctx context.Context, who user.Info, gvr schema.GroupVersionResource, namespace, name string) error
}

// askAgain bounds the interval of checking objects on other servers that a finalizer keeps, as in kube-controller-manager: no event
// tells of their deletion. The first checks come sooner.
const (
	askAgainFirst = time.Second
	askAgain      = 8 * time.Second
)

// emptyElsewhere deletes the objects of other servers in a namespace. It does not wait for a server that does not answer: a
// condition says so while the namespace exists, which is then removed nevertheless. (With kube-controller-manager, the namespace
// stays until that server is back or its APIService is gone.)
func (c *namespaces) emptyElsewhere(ctx context.Context, found []metav1.APIResource, in target, rest *remaining) {
	for _, r := range found {
		if !slices.Contains(r.Verbs, "delete") {
			continue
		}
		if err := c.emptyElsewhereOf(ctx, r, in, rest); err != nil {
			rest.failures = append(rest.failures, err)
		}
	}
}

func (c *namespaces) emptyElsewhereOf(ctx context.Context, r metav1.APIResource, in target, rest *remaining) error {
	gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}
	together := slices.Contains(r.Verbs, "deletecollection")
	if !slices.Contains(r.Verbs, "list") {
		if together {
			return c.deleteElsewhere(ctx, gvr, in, true, nil)
		}
		return nil // neither this server nor kube-controller-manager can find out whether objects exist
	}
	before, err := c.listElsewhere(ctx, gvr, in.name)
	if err != nil || len(before) == 0 {
		return err
	}
	if err := c.deleteElsewhere(ctx, gvr, in, together, before); err != nil {
		return err
	}
	after, err := c.listElsewhere(ctx, gvr, in.name)
	if err != nil || len(after) == 0 {
		return err
	}
	rest.count[gvr.GroupResource()] += len(after)
	kept := false
	for _, o := range after {
		for _, f := range o.Finalizers {
			rest.finalizers[f]++
			kept = true
		}
	}
	if kept {
		rest.elsewhere = true
		return nil
	}
	return unexpected(in, gvr)
}

// listElsewhere returns the objects of a type; none, when the type no longer exists.
func (c *namespaces) listElsewhere(ctx context.Context, gvr schema.GroupVersionResource, namespace string) (all []metav1.PartialObjectMetadata, err error) {
	next := ""
	for {
		list, err := c.elsewhere.List(ctx, namespaceController.Info, gvr, namespace, next)
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, list.Items...)
		if next = list.Continue; next == "" {
			return all, nil
		}
	}
}

// deleteElsewhere deletes the objects of a type, with one request where the server supports deletecollection.
func (c *namespaces) deleteElsewhere(ctx context.Context, gvr schema.GroupVersionResource, in target, together bool, objects []metav1.PartialObjectMetadata) error {
	err := in.validNow(ctx)
	if errors.Is(err, errOtherNamespace) {
		return nil
	}
	if err != nil {
		return err
	}
	if together {
		switch err := c.elsewhere.Delete(ctx, namespaceController.Info, gvr, in.name, ""); {
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsMethodNotSupported(err):
			return err
		}
	}
	for _, o := range objects {
		if err := c.elsewhere.Delete(ctx, namespaceController.Info, gvr, in.name, o.Name); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
