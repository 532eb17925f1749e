package handlers

import (
	"math/rand/v2"
	"time"

	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/rowlock/rowlock/resources"
)

// begin sends what the watch begins with. It returns false when the watch is over with that. Whatever happens, the answer has begun: there
// is no error to return.
func (w *watchStream) begin() bool {
	if w.q.ctx.Err() != nil {
		return false
	}
	if w.failed != nil {
		w.fail(w.failed)
		return false
	}
	if w.initial != nil && !w.sendInitial() {
		return false
	}
	flowcontrol.WatchInitialized(w.q.ctx) // it needs its seat no more
	w.alarmAt = w.until
	if w.opts.AllowWatchBookmarks {
		now := time.Now()
		w.bookmarkAt = now.Add(w.untilBookmark(now))
		w.alarmAt = w.due()
	}
	return true
}

// run makes steps until the watch's time is over, the client is gone or the server shuts down.
func (w *watchStream) run() {
	w.alarm = time.NewTimer(time.Until(w.alarmAt))
	defer w.alarm.Stop()
	for !w.step() {
		select {
		case <-w.cursor.Ready():
		case <-w.alarm.C:
		case <-w.q.ctx.Done():
		case <-w.h.Draining:
		case <-w.life:
		}
	}
}

// step does what there is to do, and reports whether the watch is over. What it waits for then has another step made: events, the alarm,
// the end of the request, of the server or of the version.
func (w *watchStream) step() (over bool) {
	now := time.Now()
	switch {
	case w.gone(now):
		return true
	case closed(w.h.Draining):
		w.drain()
		return true
	case closed(w.life):
		w.end()
		return true
	case w.gathers(now):
		return false
	case !w.drain():
		return true
	}
	if !w.bookmarkAt.IsZero() && !now.Before(w.bookmarkAt) {
		if !w.isAhead() && !w.bookmark(false) {
			return true
		}
		w.bookmarkAt = now.Add(w.untilBookmark(now))
	}
	if next := w.due(); next.Before(w.alarmAt) || !now.Before(w.alarmAt) {
		w.alarmAt = next
		w.alarm.Reset(next.Sub(now))
	}
	return false
}

// gone tells whether nobody wants to be sent anything any more.
func (w *watchStream) gone(now time.Time) bool {
	return w.q.ctx.Err() != nil || !now.Before(w.until)
}

// due is when there is something to do, whatever happens.
func (w *watchStream) due() time.Time {
	next := w.until
	for _, at := range []time.Time{w.bookmarkAt, w.retryAt} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// isAhead tells whether the client has asked for what comes after a revision that is not there yet. It gets no bookmark before that: the bookmark would
// say so of a revision of which nobody knows whether it will be one.
func (w *watchStream) isAhead() bool {
	if !w.named {
		return false
	}
	newest, err := w.h.Store.Snapshot(w.q.ctx, w.q.served.ResourceName(), resources.At{Match: resources.Any, Namespace: w.selection.namespace, Name: w.selection.name})
	if err != nil {
		return true // nobody can tell at the moment
	}
	w.named = newest.Revision() < w.position
	return w.named
}

// untilBookmark is how long it is to the next bookmark. One is sent shortly before the watch ends, so that the client can resume from
// where it was.
func (w *watchStream) untilBookmark(now time.Time) time.Duration {
	if lead := w.until.Sub(now) - bookmarkLead; lead > 0 {
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
	w.retryAt = time.Now().Add(w.pause/2 + rand.N(w.pause/2))
}
