package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// forgottenIn is how long after a version has ended its metrics go: when most requests are over that were about it.
const forgottenIn = 2 * time.Second

// endedVersions are versions that are not served any more, until their metrics are gone: with definitions that come and go, each under
// another name, there would be ever more of them. Versions that are served again meanwhile keep theirs.
type endedVersions struct {
	mu      sync.Mutex
	all     []schema.GroupVersionResource
	waiting bool // for the time to forget them
}

// forgetLater is for Registry.WhenEnded.
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

// forgetEnded is for a request that was counted, which may have been about a version that was forgotten meanwhile. Nil: about none.
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

// forget removes what was counted under these labels.
func (m *metrics) forget(labels prometheus.Labels) {
	m.requests.DeletePartialMatch(labels)
	m.streams.DeletePartialMatch(labels)
	m.outgoing.DeletePartialMatch(labels)
	for _, h := range []*prometheus.HistogramVec{m.durations, m.own, m.sizes} {
		h.DeletePartialMatch(labels)
	}
}
