package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// forgottenIn is how long after the end of a version its series are removed: most requests for it have finished by then.
const forgottenIn = 2 * time.Second

// endedVersions are versions that are no longer served and still have series. Without their removal, definitions that come and go under ever new
// names would add series without end. Versions that are served again meanwhile keep theirs.
type endedVersions struct {
	mu      sync.Mutex
	all     []schema.GroupVersionResource
	waiting bool // the timer for forget runs
}

// forgetLater is the callback of Registry.WhenEnded.
func (s *Server) forgetLater(ended []*resources.Served) {
	e := &s.endedVersions
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, served := range ended {
		e.all = append(e.all, served.GVR())
	}
	if !e.waiting {
		e.waiting = true
		time.AfterFunc(forgottenIn, s.forget)
	}
}

// forgetEnded schedules another removal if the version of a counted request has ended, because its series may have been removed before the count.
// Nil: the request had no version.
func (s *Server) forgetEnded(served *resources.Served) {
	if served == nil {
		return
	}
	select {
	case <-served.Ended():
		s.forgetLater([]*resources.Served{served})
	default:
	}
}

func (s *Server) forget() {
	e := &s.endedVersions
	e.mu.Lock()
	all := e.all
	e.all, e.waiting = nil, false
	e.mu.Unlock()
	catalog := s.Registry.Catalog()
	for _, version := range all {
		if _, served := catalog.Lookup(version); served {
			continue
		}
		s.handlers.Forget(version)
		if _, other := catalog.Type(version.GroupResource().String()); !other {
			s.commits.forget(version.GroupResource())
			s.metrics.selfMade.DeletePartialMatch(prometheus.Labels{"group": version.Group, "resource": version.Resource})
		}
		s.metrics.forget(prometheus.Labels{"group": version.Group, "version": version.Version, "resource": version.Resource})
	}
}

// forget removes the series with these labels.
func (m *metrics) forget(labels prometheus.Labels) {
	m.requests.DeletePartialMatch(labels)
	m.streams.DeletePartialMatch(labels)
	m.outgoing.DeletePartialMatch(labels)
	for _, h := range []*prometheus.HistogramVec{m.durations, m.own, m.sizes} {
		h.DeletePartialMatch(labels)
	}
}
