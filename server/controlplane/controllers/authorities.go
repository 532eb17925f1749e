package controllers

import (
	"crypto/x509"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/informers/core/v1"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
)

// authorities are certificates in PEM.
type authorities struct {
	text         string
	certificates []*x509.Certificate
}

// newAuthorities parses certificates. A text that cannot be parsed is in no other text.
func newAuthorities(text []byte) *authorities {
	certificates, _ := cert.ParseCertsPEM(text)
	return &authorities{string(text), certificates}
}

// in tells whether a text in PEM has all of the certificates. It may have further ones, and text between them.
func (a *authorities) in(text string) bool {
	all, err := cert.ParseCertsPEM([]byte(text))
	if err != nil || len(a.certificates) == 0 {
		return false
	}
	return !slices.ContainsFunc(a.certificates, func(c *x509.Certificate) bool { return !slices.ContainsFunc(all, c.Equal) })
}

// published knows the authorities that kube-controller-manager publishes: its --root-ca-file as it is, which may have further certificates and
// text. A controller that replaced them by the server's own would overwrite kube-controller-manager's work, and the other way round, without end.
//
// What was there when this server began to publish may be its own work with another --root-ca-file. It is replaced, so that a retired authority goes.
type published struct {
	trust *Trust
	own   *authorities
	maps  listersv1.ConfigMapLister
	alone bool // this server publishes nothing in kube-system
}

func newPublished(c Config, own []byte, core corev1.Interface) *published {
	return &published{c.Trust, newAuthorities(own), core.ConfigMaps().Lister(), !slices.Contains(c.Enabled, RootCA)}
}

// earlier are the authorities in kube-system when a server began to publish its own.
type earlier struct{ own, resourceVersion string }

// earlier returns the resourceVersion of other authorities that were in kube-system when it was first called; empty, if there were none.
func (p *published) earlier() string {
	if was := p.trust.earlier.Load(); was != nil && was.own == p.own.text {
		return was.resourceVersion
	}
	now := &earlier{own: p.own.text}
	if system, err := p.system(); err == nil && !p.alone && system.Data[v1.ServiceAccountRootCAKey] != p.own.text {
		now.resourceVersion = system.ResourceVersion
	}
	p.trust.earlier.Store(now)
	return now.resourceVersion
}

func (p *published) system() (*v1.ConfigMap, error) {
	return p.maps.ConfigMaps(metav1.NamespaceSystem).Get(rootcacertpublisher.RootCACertConfigMapName)
}

// has tells whether a text is another one with the server's own authorities, and is published in kube-system: users who may write in another namespace
// cannot add an authority.
func (p *published) has(text string) bool {
	earlier := p.earlier()
	if text == p.own.text || !p.own.in(text) {
		return false
	}
	system, err := p.system()
	return err == nil && system.Data[v1.ServiceAccountRootCAKey] == text && system.ResourceVersion != earlier
}
