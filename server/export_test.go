package server

import (
	"net/url"
	"runtime"
	"time"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/behind"
)

// Routes returns the router's paths, with wildcards replaced.
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

// Watches is the number of open watches.
func (s *Server) Watches() int { return s.handlers.Watches() }

// BusyRequests is the number of requests that keep the server from being idle.
func (s *Server) BusyRequests() int64 { return s.trimmer.requests.Load() }

// ResolveService returns the URL of a webhook behind a Service.
func (s *Server) ResolveService(namespace, name string, port int32) (*url.URL, error) {
	return services{behind.New(s.Store, s.Registry), s.ServiceRouting}.ResolveEndpoint(namespace, name, port)
}

// WaitingMost bounds the requests that wait for a server.
const WaitingMost = waitingMost

// Patience sets how long a request waits for a server.
func (e *Entrance) Patience(d time.Duration) { e.patience = d }

// AwaitWaiting returns when at least n requests wait for a server.
func (e *Entrance) AwaitWaiting(n int64) {
	for e.waiting.Load() < n {
		runtime.Gosched()
	}
}

// InterestedWatches is the number of watches that priority and fairness expects to receive a write.
func (s *Server) InterestedWatches(write *genericapirequest.RequestInfo) int {
	return s.flows.GetInterestedWatchCount(write)
}
