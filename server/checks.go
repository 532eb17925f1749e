package server

import (
	"net/http"

	"github.com/rowlock/rowlock/server/health"
)

// healthChecks returns the checks of one health path. Their names are kube-apiserver's, because clients request or exclude checks by name. No check
// is without a counterpart there.
//
// A server that is alive may be unready, while its store is unavailable or during shutdown. A restart would not help, so /livez does not fail with
// the store.
func (s *Server) healthChecks(path string) []health.Check {
	checks := []health.Check{health.Ping}
	for _, c := range s.Checks {
		checks = append(checks, storeChecks(path, c)...)
	}
	if path != "livez" { // a restart would not bring back a KMS plugin
		checks = append(checks, s.KeyChecks...)
	}
	// Every version has an APIService by now, and the log is writable.
	checks = append(checks, health.Finished("autoregister-completion"), health.Finished("log"))
	if path == "readyz" {
		// kube-apiserver waits here for its informers. Rowlock's store has read the objects before it is opened.
		checks = append(checks, health.Finished("informer-sync"))
	} else {
		checks = append(checks, loopbackCheck)
	}
	for _, name := range s.finished {
		checks = append(checks, health.Finished("poststarthook/"+name))
	}
	if path == "readyz" {
		checks = append(checks, health.Check{Name: "shutdown", Run: s.notDraining})
	}
	return checks
}

// loopbackCheck fails in kube-apiserver when the certificate that it makes for requests to itself has expired. Rowlock needs none.
var loopbackCheck = health.Finished("loopback-serving-certificate")

// storeChecks returns the checks of a store for one health path.
func storeChecks(path string, c health.Check) []health.Check {
	c.Optional = path == "livez"
	checks := []health.Check{c}
	if path == "readyz" {
		c.Name += "-readiness" // etcd has two checks there
		checks = append(checks, c)
	}
	return checks
}

// Hooks are the names of the post-start hooks that New finishes.
var Hooks = []string{"storage-readiness", "start-apiserver-admission-initializer", "generic-apiserver-start-informers", "start-kube-aggregator-informers",
	"storage-object-count-tracker-hook", "apiservice-discovery-controller", "apiservice-openapi-controller", "apiservice-openapiv3-controller"}

// definitionHooks are the post-start hooks of a server with CustomResourceDefinitions.
var definitionHooks = []string{"start-apiextensions-informers", "start-apiextensions-controllers", "crd-informer-synced"}

func (s *Server) notDraining(*http.Request) error {
	select {
	case <-s.stopping:
		return http.ErrServerClosed
	default:
		return nil
	}
}

// Finish marks post-start hooks as finished, by kube-apiserver's names. It must be called before Serve.
func (s *Server) Finish(names ...string) { s.finished = append(s.finished, names...) }
