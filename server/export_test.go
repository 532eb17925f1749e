package server

import (
	"net/url"
	"runtime"
	"time"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/behind"
)

// Routes are the paths of the router, with what stands for a part of one.
func (s *Server) Routes() (paths []string) {
	known := map[string]bool{}
	for _, r := range s.echo.Routes() {
		if !known[r.Path] {
			known[r.Path] = true
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// Watches is how many watches there are.
func (s *Server) Watches() int { return s.handlers.Watches() }

// ResolveService is where webhooks behind a Service are reached.
func (s *Server) ResolveService(namespace, name string, port int32) (*url.URL, error) {
	return services{behind.New(s.Store, s.Registry), s.RouteToEndpoints}.ResolveEndpoint(namespace, name, port)
}

// WaitingMost is how many requests may wait for a server.
const WaitingMost = waitingMost

// Patience sets how long a request waits for a server.
func (e *Entrance) Patience(d time.Duration) { e.patience = d }

// AwaitWaiting returns when so many requests wait for a server.
func (e *Entrance) AwaitWaiting(n int64) {
	for e.waiting.Load() < n {
		runtime.Gosched()
	}
}

// InterestedWatches is how many watches priority and fairness takes a write to have to tell.
func (s *Server) InterestedWatches(write *genericapirequest.RequestInfo) int {
	return s.flows.GetInterestedWatchCount(write)
}
