package handlers

import (
	"sync/atomic"
	"time"
)

// From pacedFrom watches of a type on, each waits for a pace after a flush before it sends more. The events that arrive meanwhile then share one
// write; writes are what costs. With fewer watches, or for the first event after a quiet time, there is no wait.
const (
	pacedFrom = 32
	pace      = 15 * time.Millisecond
)

type watcherCountKey struct{}

// watcherCount counts the watches of a version.
func (q *request) watcherCount() *atomic.Int64 {
	n, _ := q.served.Memo(watcherCountKey{}, func() (any, error) { return &atomic.Int64{}, nil })
	return n.(*atomic.Int64)
}

// Watches returns the number of open watches.
func (h *Handlers) Watches() int { return int(h.watches.Load()) }

// gathers tells whether the watch must wait before it sends again; if so, it schedules the next step.
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
