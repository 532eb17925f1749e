package server

import (
	"net/http"

	"github.com/rowlock/rowlock/server/health"
)

// healthChecks are the checks of one health path. Their names are those of kube-apiserver, for clients that ask for one or
// exclude one, and no name is here that has no counterpart.
//
// A server that is alive may yet not be ready, while its store is away or it is shutting down: to start it again would not
// help, so that /livez does not fail when the store does.
func (s *Server) healthChecks(path string) []health.Check {
	checks := []health.Check{health.Ping}
	for _, c := range s.Checks {
		checks = append(checks, storeChecks(path, c)...)
	}
	if path != "livez" { // to start again would not bring a KMS plugin back
		checks = append(checks, s.KeyChecks...)
	}
	// An APIService for each version, and a log that can be written.
	checks = append(checks, health.Finished("autoregister-completion"), health.Finished("log"))
	if path == "readyz" {
		// What informers bring to kube-apiserver's memory, the store has read before it is opened.
		checks = append(checks, health.Finished("informer-sync"))
	}
	for _, name := range s.finished {
		checks = append(checks, health.Finished("poststarthook/"+name))
	}
	if path == "readyz" {
		checks = append(checks, health.Check{Name: "shutdown", Run: s.notDraining})
	}
	return checks
}

// storeChecks are those of a store for one health path.
func storeChecks(path string, c health.Check) []health.Check {
	c.Optional = path == "livez"
	checks := []health.Check{c}
	if path == "readyz" {
		c.Name += "-readiness" // etcd has two there
		checks = append(checks, c)
	}
	return checks
}

// Hooks are the parts of the start that New finishes ("post-start hooks").
var Hooks = []string{"storage-readiness", "start-apiserver-admission-initializer", "generic-apiserver-start-informers", "start-kube-aggregator-informers",
	"storage-object-count-tracker-hook", "apiservice-discovery-controller", "apiservice-openapi-controller", "apiservice-openapiv3-controller"}

// definitionHooks are those of a server that has definitions of custom resources.
var definitionHooks = []string{"start-apiextensions-informers", "start-apiextensions-controllers", "crd-informer-synced"}

func (s *Server) notDraining(*http.Request) error {
	select {
	case <-s.stopping:
		return http.ErrServerClosed
	default:
		return nil
	}
}

// Finish notes that a part of the start is over, by the name that kube-apiserver has for the same ("post-start hook"). It
// comes before Serve.
func (s *Server) Finish(names ...string) { s.finished = append(s.finished, names...) }
