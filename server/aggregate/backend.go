package aggregate

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
)

// defaultPort is the port of a reference to a Service without a port, as in upstream.
const defaultPort = 443

// Backend is one state of an APIService: the server for a group version, and how to reach it.
type Backend struct {
	owner     *Aggregator
	revision  int64
	gv        schema.GroupVersion
	priority  int32 // of the version
	group     int32 // the priority of the group
	available bool
	service   apiregistrationv1.ServiceReference
	port      int32
	bundle    []byte // CA certificates in PEM; empty: those of the system
	insecure  bool
	// transport is nil when this server handles the version, and when transportErr is set.
	transport    *http.Transport
	transportErr error
	// reads are the connections for short reads.
	reads *readers
}

// newBackend creates a Backend from an APIService. It reuses the connections of the Backend before if their settings are the same.
func (a *Aggregator) newBackend(is *apiregistrationv1.APIService, revision int64, before *Backend) *Backend {
	b := &Backend{owner: a, revision: revision, gv: schema.GroupVersion{Group: is.Spec.Group, Version: is.Spec.Version}, priority: is.Spec.VersionPriority,
		group: is.Spec.GroupPriorityMinimum}
	if !isRemote(is) {
		return b
	}
	b.available = helper.IsAPIServiceConditionTrue(is, apiregistrationv1.Available)
	b.service, b.port, b.bundle, b.insecure = *is.Spec.Service, defaultPort, is.Spec.CABundle, is.Spec.InsecureSkipTLSVerify
	if p := is.Spec.Service.Port; p != nil {
		b.port = *p
	}
	if before != nil && before.transport != nil && before.sameConnections(b) {
		b.transport, b.reads = before.transport, before.reads
		return b
	}
	if b.transport, b.transportErr = b.newTransport(); b.transportErr == nil {
		b.reads = newReaders(b.transport)
	}
	return b
}

// local tells whether this server handles the version.
func (b *Backend) local() bool { return b.service.Name == "" }

// remote returns b if another server handles the version, otherwise nil.
func (b *Backend) remote() *Backend {
	if b == nil || b.local() {
		return nil
	}
	return b
}

func (b *Backend) sameConnections(other *Backend) bool {
	return b.service.Namespace == other.service.Namespace && b.service.Name == other.service.Name && b.insecure == other.insecure &&
		bytes.Equal(b.bundle, other.bundle)
}

// newTransport returns a transport with upstream's settings, and with the client certificate that is valid when a connection is made.
func (b *Backend) newTransport() (*http.Transport, error) {
	config, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{
		ServerName: b.service.Name + "." + b.service.Namespace + ".svc", Insecure: b.insecure, CAData: b.bundle}})
	if err != nil {
		return nil, err
	}
	if b.owner.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return b.owner.Certificate(), nil }
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:     config,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 25,
		// The client's Accept-Encoding and the answer are forwarded unchanged. If the client sends none, the transport asks for gzip, as in
		// kube-apiserver, and the client gets the decompressed answer.
		DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
	}), nil
}

// resolve returns the URL of the server.
func (b *Backend) resolve(ctx context.Context) (*url.URL, error) {
	if self := b.owner.Loopback.Load(); self != nil && behind.Self(b.service.Namespace, b.service.Name, int(b.port)) {
		return &url.URL{Scheme: "https", Host: *self}, nil
	}
	l := b.owner.behind.With(ctx, resources.At{Match: resources.Any})
	return l.Resolve(b.owner.ServiceRouting, b.service.Namespace, b.service.Name, b.port)
}
