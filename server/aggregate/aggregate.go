// Package aggregate forwards requests to extension API servers: those that an APIService names by a reference to a Service
// (kube-aggregator's part of kube-apiserver). It also keeps their discovery and OpenAPI documents.
//
//	aggregate.go  which APIService handles a path, according to the store
//	local.go      discovery of APIServices without a Service
//	backend.go    connections to the server of an APIService
//	proxy.go      forwarding a request and its answer; upgrades
//	readers.go    the connections for short reads
//	probe.go      probing a server, for the status of its APIService
//	metrics.go    which APIServices are unavailable
//	sources.go    polling discovery and OpenAPI documents: two goroutines for each APIService with a Service, none without any
//	discover.go   requests for discovery, and reading the answers
//	describe.go   the same for OpenAPI documents
//	elsewhere.go  namespaced objects of other servers, for the namespace controller
//
// # Invariants
//
//   - The store decides, when a request arrives, which server handles its path: a request that starts after a write of an
//     APIService or of its status sees that write. Before a request is refused because no server handles it, or because the
//     server is not available, the most recent state is read.
//   - No request for discovery or an OpenAPI document waits for another server, except one for a document of version 3 that only
//     that server has. If a server does not answer, its last answer is served, in discovery marked as Stale.
//   - The server gets the identity of the client in headers, and nothing else that proves or claims an identity: the
//     handler chain of this server (withUser) has removed that from the request.
package aggregate

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/server/discovery"
	"github.com/rowlock/rowlock/server/openapi"
)

const apiServicesResource = "apiservices.apiregistration.k8s.io"

// Config is what an Aggregator needs.
type Config struct {
	Registry *resources.Registry
	Store    resources.View
	Logger   *slog.Logger
	// Certificate is the client certificate for the servers; they trust its holder's headers about the user.
	Certificate func() *tls.Certificate
	// ServiceRouting says where requests for a server behind a Service are sent.
	ServiceRouting behind.Routing
	// PassRedirects forwards redirects, which are refused otherwise (kube-apiserver's flag
	// --aggregator-reject-forwarding-redirect, turned off).
	PassRedirects bool
	// UID adds the UID of the user to the headers (kube-apiserver's feature RemoteRequestHeaderUID).
	UID bool
}

// Aggregator forwards requests. Its methods may be called concurrently.
type Aggregator struct {
	Config
	// Loopback is the host and port under which this server reaches itself, once it is known. Requests for an APIService that refers
	// to the Service of the API are sent there, as in kube-apiserver, whether or not cluster addresses are reachable from here.
	Loopback atomic.Pointer[string]
	behind   *behind.Lister
	backends sync.Map // names of APIServices to *backend
	external atomic.Pointer[discovery.External]
	// descriptions holds the OpenAPI documents of other servers.
	descriptions atomic.Pointer[descriptions]
	sources      sources
	unavailable  *prometheus.CounterVec
	// askWithin replaces askTimeout in tests.
	askWithin time.Duration
}

// New returns an Aggregator that does not poll discovery yet; see Prepare and Run.
func New(c Config) *Aggregator {
	a := &Aggregator{Config: c, behind: behind.New(c.Store, c.Registry), unavailable: newUnavailableCounter()}
	a.sources.owner, a.sources.all = a, map[string]*source{}
	return a
}

// External returns the discovery of other servers. The pointer stays the same while the content does.
func (a *Aggregator) External() *discovery.External { return a.external.Load() }

// OpenAPI returns the OpenAPI documents of other servers. The pointer stays the same while the content does.
func (a *Aggregator) OpenAPI() *openapi.External {
	if d := a.descriptions.Load(); d != nil {
		return &d.external
	}
	return nil
}

// Find returns the server for a group version, nil for this server. Its errors are those of resources.Reader.
func (a *Aggregator) Find(ctx context.Context, gv schema.GroupVersion) (*Backend, error) {
	catalog := a.Registry.CatalogOf(ctx)
	t, ok := catalog.Type(apiServicesResource)
	if !ok {
		return nil, nil
	}
	b, err := a.look(ctx, t, gv, resources.Any)
	if err != nil {
		return nil, err
	}
	if b == nil && catalog.Serves(gv) || b != nil && (b.local() || b.available) {
		return b.remote(), nil
	}
	b, err = a.look(ctx, t, gv, resources.MostRecent)
	return b.remote(), err
}

// served returns a version that this server serves, and its group; nil: it does not serve the version.
func served(c *resources.Catalog, gv schema.GroupVersion) (*resources.Group, *resources.Version) {
	g, ok := c.Group(gv.Group)
	if !ok {
		return nil, nil
	}
	for _, v := range g.Versions {
		if v.GroupVersion == gv {
			return g, v
		}
	}
	return nil, nil
}

// look returns the Backend of an APIService as it is at a point; nil: there is none.
func (a *Aggregator) look(ctx context.Context, t *resources.Type, gv schema.GroupVersion, at resources.Match) (*Backend, error) {
	o, err := a.Store.Get(ctx, t.KeyOf("", gv.Version+"."+gv.Group), resources.At{Match: at})
	if errors.Is(err, resources.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return a.backendOf(t, o)
}

// backendOf decodes a stored APIService, unless it was decoded before.
func (a *Aggregator) backendOf(t *resources.Type, o *resources.Object) (*Backend, error) {
	known, _ := a.backends.Load(o.Name)
	before, _ := known.(*Backend)
	if before != nil && before.revision == o.Revision {
		return before, nil
	}
	obj, err := t.DecodeStored(o)
	if err != nil {
		return nil, err
	}
	b := a.newBackend(obj.(*apiregistrationv1.APIService), o.Revision, before)
	if before == nil || before.revision < b.revision {
		if !a.backends.CompareAndSwap(o.Name, known, b) && known == nil {
			a.backends.LoadOrStore(o.Name, b)
		}
	}
	return b, nil
}

// forget drops the connections of a deleted APIService.
func (a *Aggregator) forget(name string) {
	if b, ok := a.backends.LoadAndDelete(name); ok && b.(*Backend).transport != nil {
		b.(*Backend).transport.CloseIdleConnections()
		b.(*Backend).reads.plain.CloseIdleConnections()
	}
}
