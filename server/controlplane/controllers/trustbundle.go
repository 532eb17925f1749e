package controllers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	informersv1 "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	listersv1 "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// servingSigner is the signer whose ClusterTrustBundle has the authorities by which clients verify this server.
const servingSigner = "kubernetes.io/kube-apiserver-serving"

const trustBundlesResource = "clustertrustbundles.certificates.k8s.io"

// newTrustBundle returns the controller that maintains the ClusterTrustBundle of the server's authorities.
// (kube-controller-manager's own controller has its own watch, for which there is no client here.)
func newTrustBundle(c Config) controller {
	if _, served := c.Registry.Catalog().Type(trustBundlesResource); !served || c.Trust == nil {
		return nil
	}
	o := hosted.Options{Name: TrustBundle, Always: true, Follows: []hosted.Followed{{Resource: trustBundlesResource,
		Shows: func(o *resources.Object) bool { return gjson.GetBytes(o.Data, "spec.signerName").Str == servingSigner }}}}
	return newHost(c, o, "kube-apiserver-serving-clustertrustbundle-publisher", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		ctx, stop := c.Trust.until(ctx)
		defer stop()
		bundles := informersv1.New(informers, "", nil).ClusterTrustBundles()
		p := &trustBundles{lister: bundles.Lister(), client: client.CertificatesV1().ClusterTrustBundles(), bundle: newAuthorities(c.Trust.Bundle())}
		q := newQueue[string](c.Logger)
		again := func(any) { q.Add(servingSigner) }
		if _, err := bundles.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: again, DeleteFunc: again,
			UpdateFunc: func(_, now any) { again(now) }}); err != nil {
			return err
		}
		again(nil)
		q.work(ctx, 1, p.sync)
		return nil
	})
}

// trustBundles publishes the authorities of this server.
type trustBundles struct {
	lister listersv1.ClusterTrustBundleLister
	client client.ClusterTrustBundleInterface
	bundle *authorities
	began  bool // the bundles of before are removed
}

// sync creates or updates the bundle of a signer, and removes its other bundles. A bundle that also has other authorities, or text, is one of
// kube-controller-manager's, which removes all others: the two would undo each other's work without end. The first call removes it, too: it may be this
// server's, with another --root-ca-file.
func (p *trustBundles) sync(ctx context.Context, signer string) error {
	if p.bundle.text == "" {
		return nil
	}
	all, err := p.lister.List(labels.Everything())
	if err != nil {
		return err
	}
	// kube-controller-manager uses the same name for the same authorities.
	hash := sha256.Sum256([]byte(p.bundle.text))
	name := fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), hash[:12])
	others := slices.DeleteFunc(all, func(b *certificatesv1.ClusterTrustBundle) bool { return b.Spec.SignerName != signer || b.Name == name })
	published := func(b *certificatesv1.ClusterTrustBundle) bool { return p.began && p.bundle.in(b.Spec.TrustBundle) }
	is, err := p.lister.Get(name)
	switch {
	case apierrors.IsNotFound(err) && slices.ContainsFunc(others, published):
		err = nil
	case apierrors.IsNotFound(err):
		_, err = p.client.Create(ctx, &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: p.bundle.text}}, metav1.CreateOptions{})
	case err == nil && is.Spec.TrustBundle != p.bundle.text:
		next := is.DeepCopy()
		next.Spec.TrustBundle = p.bundle.text
		_, err = p.client.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	var failed []error
	for _, other := range slices.DeleteFunc(others, published) {
		if err := p.client.Delete(ctx, other.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, err)
		}
	}
	p.began = p.began || len(failed) == 0
	return errors.Join(failed...)
}
