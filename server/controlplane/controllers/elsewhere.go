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

// Elsewhere is how objects in namespaces are reached that other servers keep: those of the APIServices with a Service. The errors that
// servers answer are metav1.Status's.
type Elsewhere interface {
	// Namespaced returns what these serve that is in namespaces, once each, with group and version. unknown has the versions of which
	// that is not known, because their servers do not answer, with the reason. Errors: those of resources.Reader.
	Namespaced(ctx context.Context) (found []metav1.APIResource, unknown map[schema.GroupVersion]error, err error)
	// List returns the metadata of some objects in a namespace, in the name of who; next is where the list before says that it goes on.
	List(ctx context.Context, who user.Info, gvr schema.GroupVersionResource, namespace, next string) (*metav1.PartialObjectMetadataList, error)
	// Delete deletes an object, or with an empty name all there are in the namespace, in the background.
	Delete(ctx context.Context, who user.Info, gvr schema.GroupVersionResource, namespace, name string) error
}

// askAgain is when objects elsewhere that a finalizer keeps are looked at again, as by kube-controller-manager: nothing tells of their
// end. The first times come sooner.
const (
	askAgainFirst = time.Second
	askAgain      = 8 * time.Second
)

// emptyElsewhere deletes what other servers keep in a namespace. One that does not answer is not waited for, and the namespace goes
// without it: its condition says so while it is there. (With kube-controller-manager, it stays until that server is back or its
// APIService is gone.)
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
		return nil // there is no way to know, nor for kube-controller-manager
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

// listElsewhere returns the objects of a type; none, where there is no such type any more.
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

// deleteElsewhere deletes the objects of a type, together where its server can do that.
func (c *namespaces) deleteElsewhere(ctx context.Context, gvr schema.GroupVersionResource, in target, together bool, objects []metav1.PartialObjectMetadata) error {
	err := in.validNow(ctx)
	if errors.Is(err, errOtherNamespace) {
		return nil
	}
	if err != nil {
		return err
	}
	if together {
		if err := c.elsewhere.Delete(ctx, namespaceController.Info, gvr, in.name, ""); !apierrors.IsMethodNotSupported(err) {
			return unlessGone(err)
		}
	}
	for _, o := range objects {
		if err := unlessGone(c.elsewhere.Delete(ctx, namespaceController.Info, gvr, in.name, o.Name)); err != nil {
			return err
		}
	}
	return nil
}
