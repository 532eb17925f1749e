package server

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// systemNamespaces exist from the start, and again at the next start if somebody found a way to remove one.
var systemNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// Bootstrap makes the objects that clients count on; it comes before Serve. Several servers may do so at once.
func (s *Server) Bootstrap(ctx context.Context) error {
	t, ok := s.Registry.Catalog().Type("namespaces")
	if !ok {
		return nil
	}
	for _, name := range systemNamespaces {
		_, err := s.Store.Get(ctx, t.KeyOf("", name), resources.At{Match: resources.MostRecent})
		if err == nil {
			continue
		}
		if !errors.Is(err, resources.ErrNotFound) {
			return err
		}
		obj := t.New()
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		m.SetName(name)
		m.SetLabels(map[string]string{"kubernetes.io/metadata.name": name})
		if obj, err = s.own(t, obj); err != nil {
			return err
		}
		r := resources.CreateRequest{Type: t, Object: obj}
		if _, err := r.Apply(resources.WithRequest(ctx, t, "create", "", name), s.Store); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}

// own writes that the server itself set the fields of a new object.
func (s *Server) own(t *resources.Type, obj runtime.Object) (runtime.Object, error) {
	manager, err := fieldmanager.New(fieldmanager.Config{Scheme: t.Scheme, Kind: t.StorageKind(),
		Hub: schema.GroupVersion{Group: t.Group, Version: runtime.APIVersionInternal}, ResetFields: t.ResetFields})
	if err != nil {
		return nil, err
	}
	return manager.Create(obj, "kube-apiserver"), nil
}
