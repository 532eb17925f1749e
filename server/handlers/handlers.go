package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/runs"
	"github.com/rowlock/rowlock/server/status"
)

// Config is what the handlers need.
type Config struct {
	Registry *resources.Registry
	// Store is for reads and watches.
	Store resources.View
	// Definitions updates Registry with types that CustomResourceDefinitions define. Nil: there are none.
	Definitions Definitions
	// Pipeline writes objects.
	Pipeline *resources.Pipeline
	// Offer are the supported encodings. Nil: those that need no feature gate.
	Offer  *codec.Offer
	Logger *slog.Logger
	// MinWatchTimeout is the least timeout of a watch that requests none. A random part, of up to the same length, is added, so that clients do not
	// reconnect all at once. Default 30 minutes.
	MinWatchTimeout time.Duration
	// WatchStall is how long a watch lives while its client takes none of its frames. Default 10 minutes. It counts whole frames, so it must
	// suffice for the largest object, and for as many watches as share one slow connection.
	WatchStall time.Duration
	// BookmarkPeriod is the time between bookmarks. Default one minute.
	BookmarkPeriod time.Duration
	// HistoryAge is how long a continue token of this server is valid. 0: as long as the store can.
	HistoryAge time.Duration
	// Now is the clock; nil: the system's.
	Now func() time.Time
	// Draining is closed when the server shuts down: watches then end cleanly, and streams from kubelets and pods end.
	Draining <-chan struct{}
	// Audited is set when requests are audited.
	Audited bool
	// Shards allows lists and watches of a shard of a collection.
	Shards bool
	// ManagedFieldsFallback counts writes whose managedFields upstream's manager had to compute. May be nil.
	ManagedFieldsFallback func(reason string)
}

// Definitions keeps a registry in step with stored definitions of types.
type Definitions interface {
	// Refresh registers the definitions that this server has stored. It costs nothing when nothing has changed.
	Refresh(ctx context.Context) error
	// Seen registers all definitions up to the revisions that this server's reads have returned.
	Seen(ctx context.Context) error
	// HasSeen tells whether all definitions up to one such revision are registered. It does not wait.
	HasSeen(revision int64) bool
	// StoredType returns the type in whose version a definition's objects are stored, by the definition's name.
	StoredType(name string) (*resources.Type, bool)
	// Latest registers all definitions that any server had stored when it was called.
	Latest(ctx context.Context) error
	// Broken tells whether a definition owns the resource but cannot be served, and whether the resource is namespaced.
	Broken(gvr schema.GroupVersionResource) (broken, namespaced bool)
	// ReachesItself makes calls to the server's own conversion webhooks stay in the process. It must be called before the first conversion.
	ReachesItself(by http.RoundTripper)
}

// Handlers answers requests for resources.
type Handlers struct {
	Config
	sockets sockets
	watches atomic.Int64 // open ones
	going   going
	sent    sentByVersion
	counts  counts
	runs    *runs.Cache
	age     listAge
}

// New returns the handlers.
func New(c Config) *Handlers {
	if c.MinWatchTimeout == 0 {
		c.MinWatchTimeout = 30 * time.Minute
	}
	if c.WatchStall == 0 {
		c.WatchStall = 10 * time.Minute
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
	h := &Handlers{Config: c, counts: newCounts(), runs: runs.NewCache(runsRoom), age: newListAge(c.HistoryAge, c.Now)}
	c.Registry.WhenEnded(func([]*resources.Served) { h.versionsEnded() })
	return h
}

// writeTimeout bounds a write, as in kube-apiserver, so that the client gets an error before it gives up.
const writeTimeout = 34 * time.Second

type handler func(h *Handlers, q *request) error

var verbs = map[string]handler{
	"get": (*Handlers).get, "list": (*Handlers).list, "watch": (*Handlers).watch,
	"create": bounded((*Handlers).create), "update": bounded((*Handlers).update), "patch": bounded((*Handlers).patch),
	"delete": bounded((*Handlers).delete), "deletecollection": ended((*Handlers).deleteCollection),
}

func bounded(f handler) handler {
	return func(h *Handlers, q *request) error {
		ctx, cancel := context.WithTimeout(q.ctx, writeTimeout)
		defer cancel()
		q.ctx = ctx
		return q.inTime(f(h, q))
	}
}

// ended cancels unfinished work of a request with its handler: the request's own context lives on after its deadline.
func ended(f handler) handler {
	return func(h *Handlers, q *request) error {
		ctx, cancel := context.WithCancel(q.ctx)
		defer cancel()
		q.ctx = ctx
		return q.inTime(f(h, q))
	}
}

// inTime replaces the error of a write that failed after its time was over or its client had left, whatever step failed. kube-apiserver no longer
// waits for the step then. An error of reading the body stays.
func (q *request) inTime(err error) error {
	if err == nil || q.written || q.sent.err != nil || q.ctx.Err() == nil {
		return err
	}
	return apierrors.NewTimeoutError("request did not complete within requested timeout - "+q.ctx.Err().Error(), 0)
}

// ErrNoSuchGroup says that no served group contains the path. It is answered as any unknown path.
var ErrNoSuchGroup = errors.New("no such API group")

// Serve answers a request for a resource. The caller writes its error, unless that is ErrNoSuchGroup, as a Status; nothing has been written then.
func (h *Handlers) Serve(w http.ResponseWriter, r *http.Request, info *genericapirequest.RequestInfo) error {
	sent := &sentBody{}
	for {
		q, err := h.route(w, r, info)
		if err == nil {
			q.sent = sent
			err = h.serve(q)
		}
		if err == nil {
			return nil
		}
		later, err := h.laterTypes(r, q, info, err)
		switch {
		case err == nil:
			r = later
		case q == nil:
			if errors.Is(err, ErrNoSuchGroup) || errors.Is(err, errNowhere) {
				requestctx.Disallow(r.Context()) // kube-apiserver counts no request for a path that it has no handler for
			}
			return status.ForRequest(err, schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name, info.Verb)
		case errors.Is(err, errOtherTypes):
			return apierrors.NewServerTimeout(q.resource(), info.Verb, 1)
		default:
			return h.storeError(err, q)
		}
	}
}

// serve answers a request with the type that route has found.
func (h *Handlers) serve(q *request) error {
	info := q.info
	if h.Audited {
		q.audit = auditing.Of(q.ctx)
	}
	q.ctx = requestctx.WithNamespace(q.r.Context(), q.namespace())
	switch sub := q.sub; {
	case sub != nil && sub.Connect != nil:
		return h.connect(q)
	case sub != nil && sub.Stream != nil:
		return h.streamText(q)
	}
	q.warnDeprecated()
	if err := q.inNoKey(); err != nil {
		return err
	}
	answer := verbs[info.Verb]
	if q.served.Computed != nil {
		answer = (*Handlers).computed
	}
	err := answer(h, q)
	q.auditDeprecated()
	return err
}

func (h *Handlers) storeError(err error, q *request) error {
	return status.ForRequest(err, q.resource(), q.info.Name, q.info.Verb)
}
