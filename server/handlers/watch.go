package handlers

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/cork"
	"github.com/rowlock/rowlock/server/h2"
	"github.com/rowlock/rowlock/server/status"
)

// bookmarkLead is how long before the end of a watch its last bookmark is sent.
const bookmarkLead = 2 * time.Second

// watch streams changes ("Efficient detection of changes", "Streaming lists", "Semantics for watch").
func (h *Handlers) watch(q *request) error {
	f, err := q.format()
	if err != nil {
		return err
	}
	opts, err := q.listOptions()
	if err != nil {
		return err
	}
	// Waiting for the revision does not count towards the watch's timeout: the client gets the error for a future revision, whatever timeout it has
	// set.
	w := &watchStream{h: h, q: q, opts: opts, early: q.ctx, began: beganOf(q.ctx), watchers: q.watcherCount(), life: lifeOf(q.served, opts.FieldSelector)}
	w.watchers.Add(1)
	h.watches.Add(1)
	defer func() {
		if !w.goesOn {
			w.release()
		}
	}()
	timeout := h.watchTimeout(opts)
	over := timeout < 0
	if over {
		timeout = time.Minute // time in which to find errors; the watch ends after that
	}
	w.until = time.Now().Add(timeout)
	q.ctx, w.cancel = context.WithDeadline(q.ctx, w.until)
	if !wsstream.IsWebSocketRequest(q.r) {
		w.later = w.sequel()
	}
	w.selection, w.events = q.selection(opts), codec.NewEvents(codec.NewRenderer(q.served, f), wsstream.IsWebSocketRequest(q.r))
	if w.selection.shard, err = h.shard(opts); err != nil {
		return err
	}
	h.counts.shards.begin(w)
	if err := w.open(w.early); err != nil {
		return err
	}
	if err := w.first(); err != nil && w.q.ctx.Err() == nil {
		return status.Initializing(err, q.resource())
	}
	if f.Refusal != nil {
		return f.Refusal
	}
	if err := q.offer.Streamable(f); err != nil {
		return err
	}
	resources.ReleaseCatalog(w.early)
	if over {
		w.cancel()
	}
	w.stall.limit, w.stall.end, w.stall.count = h.WatchStall, w.cancel, q.counts.terminations(q.served)
	if wsstream.IsWebSocketRequest(q.r) {
		w.serveSocket(w.cancel)
		return nil
	}
	w.serve(f)
	return nil
}

// serve serves the watch as a response body.
func (w *watchStream) serve(f codec.Format) {
	q := w.q
	w.sent = w.h.sent.of(q.gvr())
	w.compresses = w.beginsWithList() && !q.offer.PlainWatchLists && codec.NamesGzip(q.r)
	frames := &httpFrames{w: q.w, conn: cork.Of(q.r), compress: w.compresses, direct: !w.compresses && gathers(q.w)}
	q.w.Header().Set("Content-Type", f.ContentType(true))
	if frames.compress {
		sayGzip(q.w.Header())
	}
	w.stall.end = func() {
		w.cancel()
		cutWrites(q.w)
	}
	q.w.WriteHeader(200)
	w.to = frames
	defer frames.conn.Uncork() // for data after the last batch: the end of the response must be sent
	w.flush()
	if w.begin() && !w.goOn() {
		w.run()
	}
}

// release frees the resources of the watch at its end.
func (w *watchStream) release() {
	w.stall.done()
	if w.cursor != nil {
		w.cursor.Close()
	}
	if w.cancel != nil {
		w.cancel()
	}
	w.selection.shard.end()
	w.h.watches.Add(-1)
	w.watchers.Add(-1)
}

// watchTimeout is the duration of a watch; negative for one that ends at once.
func (h *Handlers) watchTimeout(opts *metainternalversion.ListOptions) time.Duration {
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds != 0 {
		return time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	return h.MinWatchTimeout + rand.N(h.MinWatchTimeout)
}

// watchStream is one watch.
type watchStream struct {
	h         *Handlers
	q         *request
	opts      *metainternalversion.ListOptions
	selection selection
	events    *codec.Events
	catalog   <-chan struct{} // Catalog.Replaced of the last one searched for a type that replaces the watched one
	life      <-chan struct{} // lifeOf the type; that of a replacement is the same

	early  context.Context    // the request's context
	cancel context.CancelFunc // ends the watch; nil until it has started
	until  time.Time          // when the watch ends
	began  time.Time          // when the request arrived

	to         frames
	frame      countedFrame // the frame being written
	sent       *sentEvents  // nil for a WebSocket, whose events kube-apiserver does not count
	compresses bool
	later      *h2.Continued // lets the watch outlive its handler; nil: it cannot
	goesOn     bool          // the watch outlives its handler
	after      *Later        // what to call at its end then

	initial  resources.Snapshot // state to send first; nil when the watch starts at a revision
	watchers *atomic.Int64      // number of watches of the type
	cursor   resources.Watch
	failed   error // the error with which the stream begins and ends
	position int64 // every event up to this revision was sent
	named    bool  // position is the client's, and may be in the future
	// pending are events that were read and not yet sent, because the type to render them with was unknown; read is their last revision.
	pending []*resources.Event
	read    int64
	// last is the last revision whose events are sent; zero: there is none.
	last int64

	flushed time.Time
	stall   stall

	// One alarm triggers the next step at a given time.
	alarm      *time.Timer
	alarmAt    time.Time
	bookmarkAt time.Time     // when the next bookmark is due; zero: the client gets none
	retryAt    time.Time     // when to ask an unavailable store again; else zero
	pause      time.Duration // how long that is after the last attempt
}

// open determines the state or the revision with which the watch begins. Its error is answered as a Status; a problem with the revision of an
// accepted watch becomes an event of type ERROR, as clients expect.
func (w *watchStream) open(early context.Context) error {
	at, after, fromState, err := w.start()
	if err != nil {
		return err
	}
	if fromState {
		at.Namespace, at.Name = w.selection.namespace, w.selection.name
		snapshot, err := w.h.Store.Snapshot(early, w.q.served.ResourceName(), at)
		var future *resources.FutureRevisionError
		if errors.As(err, &future) {
			w.failed = tooLarge(err, w.opts.ResourceVersion, false)
			return nil
		}
		if err != nil {
			return err
		}
		after = snapshot.Revision()
		if w.wantsInitial() {
			w.initial = snapshot
		}
	}
	if err := w.h.outdated(w.q); err != nil {
		return err
	}
	// Of objects that have not changed since, the client would keep the bytes that an earlier definition showed.
	if since := w.q.served.Since; !fromState && after < since {
		w.failed = &resources.ExpiredError{Requested: after, Oldest: since}
		return nil
	}
	w.position, w.named = after, !fromState
	w.cursor, err = w.h.Store.Watch(w.q.ctx, resources.WatchOptions{
		Resource: w.q.served.ResourceName(), Namespace: w.selection.namespace, Name: w.selection.name, After: after,
		Group: w.connection(), Notify: w.wake(), Aside: w.aside})
	var expired *resources.ExpiredError
	if errors.As(err, &expired) {
		w.failed = err
		return nil
	}
	return err
}

// connection identifies the connection that the watch shares with others, whose frames leave together. Over HTTP/1.1 it shares none.
func (w *watchStream) connection() string {
	if w.q.r.ProtoMajor < 2 {
		return ""
	}
	return w.q.r.RemoteAddr
}

// start follows "Semantics for watch": without a resourceVersion or with "0" the watch begins with the state, otherwise at that revision, unless
// sendInitialEvents says something else.
func (w *watchStream) start() (at resources.At, after int64, fromState bool, err error) {
	rv := w.opts.ResourceVersion
	if rv == "" {
		return resources.At{Match: resources.MostRecent}, 0, true, nil
	}
	if after, err = resources.RevisionOfParameter(rv); err != nil {
		return at, 0, false, err
	}
	switch {
	case after == 0:
		return resources.At{Match: resources.Any}, 0, true, nil
	case w.opts.SendInitialEvents != nil && *w.opts.SendInitialEvents:
		return resources.At{Match: resources.NotOlderThan, Revision: after}, 0, true, nil
	}
	return at, after, false, nil
}

func (w *watchStream) wantsInitial() bool {
	return w.opts.SendInitialEvents == nil || *w.opts.SendInitialEvents
}

// beginsWithList tells whether the watch replaces a list ("Streaming lists").
func (w *watchStream) beginsWithList() bool {
	return w.opts.SendInitialEvents != nil && *w.opts.SendInitialEvents && w.opts.AllowWatchBookmarks
}

// writer returns a writer for the bytes of a frame, which must be flushed later.
func (w *watchStream) writer() io.Writer {
	w.sends()
	w.frame = countedFrame{to: w.to.writer()}
	return &w.frame
}

// flush sends the buffered frames.
func (w *watchStream) flush() {
	w.sends()
	if w.to.flush() {
		w.flushed = time.Now()
	}
	w.stall.done()
}

// sends is called before sending. A watch without its handler learns from Waits when it has to wait.
func (w *watchStream) sends() {
	if !w.goesOn {
		w.stall.begin()
	}
}

// aside is called before waiting for anything other than the client.
func (w *watchStream) aside() {
	w.stall.done()
	if w.later != nil {
		w.later.Aside()
	}
}

// bookmark sends the watch's position. For the client it is also a sign of life.
func (w *watchStream) bookmark(initialEnd bool) bool {
	ok := w.write(w.events.Bookmark(w.writer(), w.position, initialEnd))
	w.flush()
	return ok
}

// expiredWatch is kube-apiserver's text for a watch of etcd, without a watch cache between.
const expiredWatch = "The resourceVersion for the provided watch is too old."

// fail ends the stream with an event of type ERROR.
func (w *watchStream) fail(err error) {
	if w.q.served.Uncached && errors.As(err, new(*resources.ExpiredError)) {
		err = apierrors.NewResourceExpired(expiredWatch)
	}
	s := status.Of(status.ForRequest(err, w.q.resource(), "", "watch"))
	if w.write(w.events.Error(w.writer(), s)) {
		w.flush()
	}
}

// write ends a frame, unless rendering it failed, and reports whether it was sent. If it was not, the client has gone or gets nothing more: the
// stream ends.
func (w *watchStream) write(err error) bool {
	w.stall.frames.Add(1)
	size := w.frame.n
	w.frame = countedFrame{} // an idle watch must hold no buffer
	if err != nil || w.to.end() != nil {
		return false
	}
	if w.sent != nil {
		w.sent.add(size - w.events.Prefix())
	}
	return true
}
