package handlers

import (
	"sync/atomic"
	"time"
)

// Where so many watch a type, each waits a moment after it has sent something before it sends more: what comes in the
// meantime then takes one write instead of one each, and it is the writes that cost. A few watchers, or the first event
// after a quiet time, never wait.
const (
	pacedFrom = 32
	pace      = 15 * time.Millisecond
)

type watcherCountKey struct{}

// watcherCount counts the watches of the version.
func (q *request) watcherCount() *atomic.Int64 {
	n, _ := q.served.Memo(watcherCountKey{}, func() (any, error) { return &atomic.Int64{}, nil })
	return n.(*atomic.Int64)
}

// Watches returns how many watches clients have open.
func (h *Handlers) Watches() int { return int(h.watches.Load()) }

// gathers waits until the watch may send again: it has a step made then, and reports whether it does.
func (w *watchStream) gathers(now time.Time) bool {
	if w.watchers.Load() < pacedFrom {
		return false
	}
	wait := pace - now.Sub(w.flushed)
	if wait <= 0 {
		return false
	}
	if w.goesOn {
		w.later.WakeIn(wait)
	} else {
		w.alarm.Reset(wait)
		w.alarmAt = now.Add(wait)
	}
	return true
}
