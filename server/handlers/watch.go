package handlers

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/cork"
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
	if err := q.offer.Streamable(f); err != nil {
		return err
	}
	watchers := q.watcherCount()
	watchers.Add(1)
	defer watchers.Add(-1)
	h.watches.Add(1)
	defer h.watches.Add(-1)
	// What the state is waited for does not count: a client that is early hears why, whatever time it gave.
	early := q.ctx
	timeout := h.watchTimeout(opts)
	over := timeout < 0
	if over {
		timeout = time.Minute // in which to find what may be wrong with it: then it is over
	}
	ctx, cancel := context.WithTimeout(q.ctx, timeout)
	defer cancel()
	q.ctx = ctx
	w := &watchStream{h: h, q: q, opts: opts, watchers: watchers, selection: q.selection(opts), events: codec.NewEvents(codec.NewRenderer(q.served, f), wsstream.IsWebSocketRequest(q.r))}
	if err := w.open(early); err != nil {
		return err
	}
	defer w.close()
	if f.Refusal != nil {
		return f.Refusal
	}
	if over {
		cancel()
	}
	w.stall.limit, w.stall.end = h.WatchStall, cancel
	defer w.stall.done()
	if wsstream.IsWebSocketRequest(q.r) {
		w.serveSocket(cancel)
		return nil
	}
	frames := &httpFrames{w: q.w, conn: cork.Of(q.r), compress: w.beginsWithList() && !q.offer.PlainWatchLists && codec.NamesGzip(q.r)}
	frames.direct = !frames.compress && gathers(q.w)
	q.w.Header().Set("Content-Type", f.ContentType(true))
	if frames.compress {
		sayGzip(q.w.Header())
	}
	w.stall.end = func() {
		cancel()
		cutWrites(q.w)
	}
	q.w.WriteHeader(200)
	w.to = frames
	defer frames.conn.Uncork() // what came after the last batch, if anything: the end of the answer has to leave
	w.flush()
	w.run()
	return nil
}

// watchTimeout is how long a watch lives; one that asks for less than no time ends as soon as it has begun.
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
	catalog   *resources.Catalog // the last that was looked at for a type that replaces the one watched

	to frames

	initial  resources.Snapshot // state to begin with; nil when the watch starts at a revision
	watchers *atomic.Int64      // how many watch the type
	cursor   resources.Watch
	failed   error // what the stream begins and ends with
	position int64 // every event up to here was sent
	// pending are events that were read and not sent, because it was not known by which type; read is how far that goes.
	pending []*resources.Event
	read    int64
	// last is the last revision of which events are sent; zero: there is none.
	last int64

	flushed time.Time
	stall   stall

	retry <-chan time.Time // when the store is asked again that could not answer; else nil
	pause time.Duration    // how long that is after it was asked
}

// open finds the state or the revision that the watch begins with. Its error is answered as a Status; what is wrong with
// the revision of an accepted watch becomes an event of type ERROR, as clients expect.
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
			w.failed = err
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
	w.position = after
	w.cursor, err = w.h.Store.Watch(w.q.ctx, resources.WatchOptions{
		Resource: w.q.served.ResourceName(), Namespace: w.selection.namespace, Name: w.selection.name, After: after,
		Group: w.connection()})
	var expired *resources.ExpiredError
	if errors.As(err, &expired) {
		w.failed = err
		return nil
	}
	return err
}

// connection names the one that the watch shares with others, whose frames leave together. Over HTTP/1.1 it shares none.
func (w *watchStream) connection() string {
	if w.q.r.ProtoMajor < 2 {
		return ""
	}
	return w.q.r.RemoteAddr
}

// start reads "Semantics for watch": unset and "0" begin with the state, another value at that revision, unless
// sendInitialEvents says otherwise.
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

// beginsWithList tells whether the watch takes the place of a list ("Streaming lists").
func (w *watchStream) beginsWithList() bool {
	return w.opts.SendInitialEvents != nil && *w.opts.SendInitialEvents && w.opts.AllowWatchBookmarks
}

// writer takes the bytes of a frame, which has to be flushed.
func (w *watchStream) writer() io.Writer {
	w.stall.begin()
	return w.to.writer()
}

// flush sends what was gathered.
func (w *watchStream) flush() {
	w.stall.begin()
	if w.to.flush() {
		w.flushed = time.Now()
	}
	w.stall.done()
}

func (w *watchStream) close() {
	if w.cursor != nil {
		w.cursor.Close()
	}
}

// run sends events until the watch's time is over, the client is gone or the server shuts down. Whatever happens, the
// answer has begun: there is no error to return.
func (w *watchStream) run() {
	if w.q.ctx.Err() != nil {
		return
	}
	if w.failed != nil {
		w.fail(w.failed)
		return
	}
	if w.initial != nil && !w.sendInitial() {
		return
	}
	flowcontrol.WatchInitialized(w.q.ctx) // it needs its seat no more
	var bookmarks <-chan time.Time
	var timer *time.Timer
	if w.opts.AllowWatchBookmarks {
		timer = time.NewTimer(w.untilBookmark())
		defer timer.Stop()
		bookmarks = timer.C
	}
	for {
		if !w.drain() {
			return
		}
		select {
		case <-w.cursor.Ready():
			w.gather()
		case <-w.retry:
		case <-bookmarks:
			if !w.drain() || !w.bookmark(false) {
				return
			}
			timer.Reset(w.untilBookmark())
		case <-w.q.ctx.Done():
			return
		case <-w.h.Draining:
			w.drain()
			return
		case <-w.q.served.Ended():
			w.end()
			return
		}
	}
}

// untilBookmark is how long it is to the next bookmark. One is sent shortly before the watch ends, so that the client can resume from
// where it was.
func (w *watchStream) untilBookmark() time.Duration {
	deadline, ok := w.q.ctx.Deadline()
	if lead := time.Until(deadline) - bookmarkLead; ok && lead > 0 {
		return min(lead, w.h.BookmarkPeriod)
	}
	return w.h.BookmarkPeriod
}

// How long a watch waits before it asks a store again that cannot answer at the moment: ever longer.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// askAgain has the store asked again in a while. Nothing is lost but time: a watch whose revision is in history does not
// end because the database cannot be reached, nor because too many read it.
func (w *watchStream) askAgain() {
	w.pause = min(max(2*w.pause, firstPause), longestPause)
	w.retry = time.After(w.pause/2 + rand.N(w.pause/2))
}

// bookmark tells the client how far it has come, and that the server is there, whether it knows or not.
func (w *watchStream) bookmark(initialEnd bool) bool {
	ok := w.write(w.events.Bookmark(w.writer(), w.position, initialEnd))
	w.flush()
	return ok
}

// fail ends the stream with an event of type ERROR.
func (w *watchStream) fail(err error) {
	s := status.Of(status.ForRequest(err, w.q.resource(), "", "watch"))
	if w.write(w.events.Error(w.writer(), s)) {
		w.flush()
	}
}

// write ends a frame, unless making it failed, and reports whether it went out. When it did not the client is gone, or
// gets no more: the stream ends.
func (w *watchStream) write(err error) bool {
	w.stall.frames.Add(1)
	return err == nil && w.to.end() == nil
}
