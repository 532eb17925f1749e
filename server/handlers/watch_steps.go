package handlers

import (
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/rowlock/rowlock/resources"
)

// begin sends the initial frames of the watch. It returns false when the watch has ended. It returns no error, because the response has begun.
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
	flowcontrol.WatchInitialized(w.q.ctx) // releases the watch's seat
	w.alarmAt = w.until
	if w.opts.AllowWatchBookmarks && !w.q.served.Uncached {
		now := time.Now()
		w.bookmarkAt = now.Add(w.untilBookmark(now))
		w.alarmAt = w.due()
	}
	return true
}

// run makes steps until the watch times out, the client is gone or the server shuts down.
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

// step does everything that is due, and reports whether the watch has ended. The next step follows an event, the alarm, or the end of the request,
// the server or the version.
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
		if !w.isAhead() && !w.mark() {
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

// mark sends a bookmark, for which the type has to know every definition up to the watch's position, as for an event there: a watch from the bookmark
// would pass an edit of the definition. It returns false when the watch has ended.
func (w *watchStream) mark() bool {
	err := w.follow()
	switch {
	case errors.As(err, new(*resources.ExpiredError)):
		w.fail(err)
		return false
	case err != nil, w.last > 0: // unknown at the moment, or the version is no longer served
		return true
	}
	return w.bookmark(false)
}

// gone tells whether the client has gone or the watch has timed out.
func (w *watchStream) gone(now time.Time) bool {
	return w.q.ctx.Err() != nil || !now.Before(w.until)
}

// due is the time of the next step without events.
func (w *watchStream) due() time.Time {
	next := w.until
	for _, at := range []time.Time{w.bookmarkAt, w.retryAt} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// isAhead tells whether the client watches from a revision that does not exist yet. It gets no bookmark before then, because the bookmark would
// claim that the revision exists.
func (w *watchStream) isAhead() bool {
	if !w.named {
		return false
	}
	newest, err := w.h.Store.Snapshot(w.q.ctx, w.q.served.ResourceName(), resources.At{Match: resources.Any, Namespace: w.selection.namespace, Name: w.selection.name})
	if err != nil {
		return true // unknown at the moment
	}
	w.named = newest.Revision() < w.position
	return w.named
}

// untilBookmark is the time to the next bookmark. The last one comes shortly before the watch ends, so that the client can resume from its
// position.
func (w *watchStream) untilBookmark(now time.Time) time.Duration {
	if lead := w.until.Sub(now) - bookmarkLead; lead > 0 {
		return min(lead, w.h.BookmarkPeriod)
	}
	return w.h.BookmarkPeriod
}

// These bound the growing pauses before a watch asks an unavailable store again.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// askAgain schedules another attempt with an unavailable store. The watch loses only time: as long as its revision is in history, it does not end
// because the database cannot be reached or has too many readers.
func (w *watchStream) askAgain() {
	w.pause = min(max(2*w.pause, firstPause), longestPause)
	w.retryAt = time.Now().Add(w.pause/2 + rand.N(w.pause/2))
}
