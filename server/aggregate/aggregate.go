// Package aggregate passes requests on to the servers that extend the API: those that an APIService names by a reference to a
// Service (kube-aggregator's part of kube-apiserver), and keeps what they say they serve.
//
//	aggregate.go  which APIService answers for a path, as the store has it
//	local.go      what APIServices without a Service say of discovery
//	backend.go    how its server is connected to
//	proxy.go      a request and its answer; upgrades
//	readers.go    which connections short reads take
//	probe.go      whether a server answers, for the status of its APIService
//	metrics.go    which APIServices are not available
//	sources.go    who is asked for discovery and for OpenAPI documents: a goroutine for each APIService with a Service, none without any
//	discover.go   what is asked, and how the answers are read
//	describe.go   the same for OpenAPI documents
//	elsewhere.go  objects in namespaces that other servers keep, for the namespace controller
//
// # Invariants
//
//   - Which server answers for a path is what the store says when the request comes: a request that starts after an APIService
//     was written, or its status, goes by what was written. Before a request is refused because there is none, or because it
//     is not available, the store is asked for what is most recent.
//   - No request for discovery or an OpenAPI document waits for another server. What a server said last is served if it does not answer, in discovery as Stale.
//   - The identity of the client goes to the server in headers, and nothing else does that proves or claims one: the chain of
//     the server (withUser) has taken it out of the request.
package aggregate

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/server/discovery"
	"github.com/rowlock/rowlock/server/openapi"
)

const apiServicesResource = "apiservices.apiregistration.k8s.io"

// Config is what an Aggregator works on.
type Config struct {
	Registry *resources.Registry
	Store    resources.View
	Logger   *slog.Logger
	// Certificate is shown to the servers, which believe who has it what the headers say of the client.
	Certificate func() *tls.Certificate
	// RouteToEndpoints sends requests to the endpoints of a Service, not to its ClusterIP (kube-apiserver's flag
	// --enable-aggregator-routing).
	RouteToEndpoints bool
	// PassRedirects passes answers on that lead elsewhere, which are refused otherwise (kube-apiserver's flag
	// --aggregator-reject-forwarding-redirect, turned off).
	PassRedirects bool
	// UID has the UID of the client in the headers, too (kube-apiserver's feature RemoteRequestHeaderUID).
	UID bool
}

// Aggregator passes requests on. Its methods may be called concurrently.
type Aggregator struct {
	Config
	// Loopback is the host and port under which this server reaches itself, when it is known: that is what the Service of the API is to
	// an APIService, as to kube-apiserver, whether or not addresses of the cluster are reachable from here.
	Loopback atomic.Pointer[string]
	behind   *behind.Lister
	backends sync.Map // names of APIServices to *backend
	external atomic.Pointer[discovery.External]
	// descriptions is beside external what other servers say in OpenAPI documents.
	descriptions atomic.Pointer[descriptions]
	sources      sources
	unavailable  *prometheus.CounterVec
}

// New returns an Aggregator that asks nobody for discovery yet; see Run.
func New(c Config) *Aggregator {
	a := &Aggregator{Config: c, behind: behind.New(c.Store, c.Registry), unavailable: newUnavailableCounter()}
	a.sources.owner, a.sources.all = a, map[string]*source{}
	return a
}

// External returns what other servers serve. It is the same while that is.
func (a *Aggregator) External() *discovery.External { return a.external.Load() }

// OpenAPI returns what other servers describe. It is the same while that is.
func (a *Aggregator) OpenAPI() *openapi.External {
	if d := a.descriptions.Load(); d != nil {
		return &d.external
	}
	return nil
}

// Find returns who answers for a version of a group, nil for this server. Its errors are those of resources.Reader.
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

// served returns a version that is one of this server's, and its group; nil: it is none.
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

// look returns what an APIService says at a point; nil: there is none.
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

// backendOf reads an APIService as it is stored, unless that was read before.
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

// forget drops how the server of an APIService is connected to that is gone.
func (a *Aggregator) forget(name string) {
	if b, ok := a.backends.LoadAndDelete(name); ok && b.(*Backend).transport != nil {
		b.(*Backend).transport.CloseIdleConnections()
		b.(*Backend).reads.plain.CloseIdleConnections()
	}
}
