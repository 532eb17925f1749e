package server

import (
	"net/http"
	"sync/atomic"
)

// limits bounds how many requests are under way, reads and writes apart, so that a flood of one leaves the other served.
type limits struct {
	reads, writes chan struct{}
	exempt        atomic.Int64 // those that are not bounded
}

func newLimits(reads, writes int) *limits {
	return &limits{reads: make(chan struct{}, reads), writes: make(chan struct{}, writes)}
}

// acquireExempt counts a request that needs no place.
func (l *limits) acquireExempt() (release func()) {
	l.exempt.Add(1)
	return func() { l.exempt.Add(-1) }
}

// acquire takes a place, or tells that there is none.
func (l *limits) acquire(method string) (release func(), ok bool) {
	places := l.writes
	if method == http.MethodGet || method == http.MethodHead {
		places = l.reads
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	default:
		return nil, false
	}
}

// underWay is how many requests have a place or need none.
func (l *limits) underWay() int { return len(l.reads) + len(l.writes) + int(l.exempt.Load()) }

// tooMany is the answer under overload, the text that kube-apiserver has there; clients wait for as long as Retry-After
// says.
func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}
