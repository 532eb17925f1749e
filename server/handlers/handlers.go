package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/runs"
	"github.com/rowlock/rowlock/server/status"
)

// Config is what the handlers need.
type Config struct {
	Registry *resources.Registry
	// Store is read and watched.
	Store resources.View
	// Pipeline is how objects are written.
	Pipeline *resources.Pipeline
	// Offer is which encodings there are. Nil: those that need no feature gate.
	Offer  *codec.Offer
	Logger *slog.Logger
	// MinWatchTimeout is the least time that the server lets a watch live which names none; it adds up to as much again
	// by chance, so that clients do not come back all at once. Default 30 minutes.
	MinWatchTimeout time.Duration
	// BookmarkPeriod is the time between bookmarks. Default one minute.
	BookmarkPeriod time.Duration
	// HistoryAge is for how long clients may go on with a list. 0: as long as the store can.
	HistoryAge time.Duration
	// Now is the clock; nil: the system's.
	Now func() time.Time
	// Draining is closed when the server shuts down: watches then end cleanly, and what comes from kubelets and pods ends.
	Draining <-chan struct{}
	// ManagedFieldsFallback counts writes whose managedFields upstream's manager had to compute. May be nil.
	ManagedFieldsFallback func(reason string)
}

// Handlers answers requests for resources.
type Handlers struct {
	Config
	sockets sockets
	watches atomic.Int64 // that are open
	runs    *runs.Cache
}

// New returns the handlers.
func New(c Config) *Handlers {
	if c.MinWatchTimeout == 0 {
		c.MinWatchTimeout = 30 * time.Minute
	}
	if c.BookmarkPeriod == 0 {
		c.BookmarkPeriod = time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Offer == nil {
		c.Offer = codec.NewOffer(false)
	}
	upstream.LimitPatchCopies()
	return &Handlers{Config: c, runs: runs.NewCache(runsRoom)}
}

// writeTimeout bounds a write, as kube-apiserver does, so that a client hears of trouble before it gives up itself.
const writeTimeout = 34 * time.Second

type handler func(h *Handlers, q *request) error

var verbs = map[string]handler{
	"get": (*Handlers).get, "list": (*Handlers).list, "watch": (*Handlers).watch,
	"create": bounded((*Handlers).create), "update": bounded((*Handlers).update), "patch": bounded((*Handlers).patch),
	"delete": bounded((*Handlers).delete), "deletecollection": (*Handlers).deleteCollection,
}

func bounded(f handler) handler {
	return func(h *Handlers, q *request) error {
		ctx, cancel := context.WithTimeout(q.ctx, writeTimeout)
		defer cancel()
		q.ctx = ctx
		return f(h, q)
	}
}

// ErrNoSuchGroup says that the path is below no group that is served; it is answered as any unknown path.
var ErrNoSuchGroup = errors.New("no such API group")

// Serve answers a request for a resource. Its error, unless it is ErrNoSuchGroup, is to be written as a Status; nothing
// was written then.
func (h *Handlers) Serve(w http.ResponseWriter, r *http.Request, info *genericapirequest.RequestInfo) error {
	q, err := h.route(w, r, info)
	if err != nil {
		return err
	}
	q.ctx = genericapirequest.WithNamespace(r.Context(), q.namespace())
	if q.sub != nil && q.sub.Unserved != nil {
		return h.storeError(q.sub.Unserved(q.ctx, h.Store, info.Namespace, info.Name), q)
	}
	if q.sub != nil && q.sub.Connect != nil {
		return h.storeError(h.connect(q), q)
	}
	if q.sub != nil && q.sub.Stream != nil {
		return h.storeError(h.streamText(q), q)
	}
	q.warnDeprecated()
	if served := q.served; served.Computed != nil {
		return h.storeError(h.computed(q), q)
	}
	return h.storeError(verbs[info.Verb](h, q), q)
}

func (h *Handlers) storeError(err error, q *request) error {
	return status.ForRequest(err, q.resource(), q.info.Name, q.info.Verb)
}

// route finds the type and subresource that a path means, and whether it takes the method.
func (h *Handlers) route(w http.ResponseWriter, r *http.Request, info *genericapirequest.RequestInfo) (*request, error) {
	catalog := h.Registry.CatalogOf(r.Context())
	if _, ok := catalog.Group(info.APIGroup); !ok || info.APIGroup == "" && info.APIPrefix == "apis" {
		return nil, ErrNoSuchGroup
	}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	served, ok := catalog.Lookup(gvr)
	if !ok {
		return nil, status.NotFound()
	}
	if leadsNowhere(info, served) {
		return nil, status.NotFound()
	}
	q := &request{w: w, r: r, ctx: r.Context(), info: info, offer: h.Offer, runs: h.runs, served: served, kind: served.GroupVersionKind}
	if info.Subresource != "" {
		if q.sub, ok = served.Subresources[info.Subresource]; !ok {
			return nil, noSubresource(info, served)
		}
		if !q.sub.Kind.Empty() {
			q.kind = q.sub.Kind
		}
	}
	if !q.allowed() {
		return nil, status.MethodNotAllowed()
	}
	return q, nil
}

// noSubresource is the answer for a subresource that there is not. kube-apiserver says of a custom resource that the object is
// not there.
func noSubresource(info *genericapirequest.RequestInfo, served *resources.Served) error {
	if served.Untyped {
		return apierrors.NewNotFound(served.GroupResource, info.Name)
	}
	return status.NotFound()
}

// leadsNowhere tells whether a path is none of the type's ("Resource URIs" of the API concepts page): in a namespace
// where the type is in none or the other way round, below a type that is only created, or too long.
func leadsNowhere(info *genericapirequest.RequestInfo, served *resources.Served) bool {
	named := len(info.Parts) > 1
	inNamespace := info.Namespace != ""
	if info.Resource == "namespaces" {
		inNamespace = inNamespace && info.Namespace != info.Name // its own path reads as if it were within itself
	}
	switch {
	case (inNamespace || strings.Contains(info.Path, "/namespaces//")) && !served.Namespaced, served.Namespaced && !inNamespace && (named || served.Virtual != nil),
		served.Virtual != nil && named, info.Verb == "proxy", unwatched(info, served):
		return true
	}
	return len(info.Parts) > 3 && (info.Subresource == "" || !takesPath(served, info.Subresource))
}

// unwatched tells whether a path of the old form /watch/… is of a type that has no watches.
func unwatched(info *genericapirequest.RequestInfo, served *resources.Served) bool {
	return info.Verb == "watch" && !slices.Contains(served.Verbs(), "watch") && strings.Contains(info.Path, "/"+info.APIVersion+"/watch/")
}

// takesPath tells whether a subresource takes a path below it, as proxies do.
func takesPath(s *resources.Served, name string) bool {
	return name == "proxy" && s.Subresources[name] != nil
}
