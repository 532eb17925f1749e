package untyped

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/rowlock/rowlock/resources"
)

// Strategy has the rules of every write of a type.
type Strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.RESTDeleteStrategy
}

// Define returns a type whose objects have no Go type, in one version in which it is served: rules work on that
// version. The caller sets the rest (names, columns, subresources, the schema of fields).
func Define(gvr schema.GroupVersionResource, kind string, storage string, s *Scheme, rules Strategy) *resources.Type {
	served := gvr.GroupVersion().WithKind(kind)
	t := &resources.Type{
		GroupResource: gvr.GroupResource(), Kind: kind, SingularName: strings.ToLower(kind), Namespaced: rules.NamespaceScoped(),
		Untyped: true, Hub: gvr.GroupVersion(), StorageVersion: schema.GroupVersion{Group: gvr.Group, Version: storage},
		Scheme: s, Serializer: s.Serializer(),
		New: func() runtime.Object {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(served)
			return u
		},
		ServedVerbs:    slices.Clip(verbs),
		CreateStrategy: rules, UpdateStrategy: rules, DeleteStrategy: rules,
		ReturnDeletedObject: true,
		Attrs:               attrs,
		Table:               rest.NewDefaultTableConvertor(gvr.GroupResource()),
		Subresources:        map[string]*resources.Subresource{},
	}
	t.NewList = func() runtime.Object {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvr.GroupVersion().WithKind(t.KindOfLists()))
		return list
	}
	if len(s.SelectableFields) > 0 {
		t.FieldsOf = func(data []byte) fields.Set { return fieldsOf(data, s.SelectableFields) }
	}
	return t
}

// verbs are in kube-apiserver's order for custom resources.
var verbs = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}

// attrs are the labels and the fields that every kind has.
func attrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("attributes of %T: %w", obj, err)
	}
	return m.GetLabels(), fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()}, nil
}

// fieldsOf reads the selectable fields of an object.
func fieldsOf(data []byte, names []string) fields.Set {
	set := make(fields.Set, len(names))
	for _, name := range names {
		set[name] = gjson.GetBytes(data, name).String()
	}
	return set
}
