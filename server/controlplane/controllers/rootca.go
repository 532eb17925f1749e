package controllers

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// Trust holds the authorities by which clients within a cluster verify this server.
type Trust struct {
	// Bundle returns the certificates of its authorities, as PEM.
	Bundle func() []byte
	// Changed returns a channel that is closed when Bundle would return other certificates; see controlplane.ClientAuthorities.
	Changed func() <-chan struct{}

	earlier atomic.Pointer[earlier]
}

// until returns a context that ends with ctx or when the authorities change.
func (t *Trust) until(ctx context.Context) (context.Context, context.CancelFunc) {
	changed := t.Changed()
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// newRootCA returns the controller that maintains the ConfigMap kube-root-ca.crt in every namespace.
func newRootCA(c Config) controller {
	if c.Trust == nil {
		return nil
	}
	o := hosted.Options{Name: RootCA, Always: true, Follows: []hosted.Followed{
		{Resource: namespacesResource},
		{Resource: "configmaps", Shows: func(o *resources.Object) bool { return o.Name == rootcacertpublisher.RootCACertConfigMapName }},
	}}
	return newHost(c, o, "root-ca-cert-publisher", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		ctx, stop := c.Trust.until(ctx)
		defer stop()
		core := corev1.New(informers, "", nil)
		bundle := c.Trust.Bundle()
		c.Trust.earlier.Store(nil) // another server may have published in between
		maps := &rootMaps{core.ConfigMaps(), core.ConfigMaps().Lister(), newPublished(c, bundle, core)}
		p, err := rootcacertpublisher.NewPublisher(maps, core.Namespaces(), client, bundle)
		if err != nil {
			return err
		}
		informers.CalmQueue(p, "root_ca_cert_publisher")
		p.Run(ctx, 1)
		return nil
	})
}

// rootMaps shows the publisher ConfigMaps with published authorities as ones with the server's own.
type rootMaps struct {
	corev1.ConfigMapInformer
	listersv1.ConfigMapLister
	published *published
}

// Lister implements corev1.ConfigMapInformer.
func (m *rootMaps) Lister() listersv1.ConfigMapLister { return m }

// ConfigMaps implements listersv1.ConfigMapLister.
func (m *rootMaps) ConfigMaps(namespace string) listersv1.ConfigMapNamespaceLister {
	return &rootMapsOf{m.ConfigMapLister.ConfigMaps(namespace), m.published}
}

type rootMapsOf struct {
	listersv1.ConfigMapNamespaceLister
	published *published
}

// Get implements listersv1.ConfigMapNamespaceLister.
func (m *rootMapsOf) Get(name string) (*v1.ConfigMap, error) {
	m.published.earlier() // also where there is no ConfigMap yet
	found, err := m.ConfigMapNamespaceLister.Get(name)
	if err != nil || !m.published.has(found.Data[v1.ServiceAccountRootCAKey]) {
		return found, err
	}
	shown := found.DeepCopy()
	shown.Data[v1.ServiceAccountRootCAKey] = m.published.own.text
	return shown, nil
}
