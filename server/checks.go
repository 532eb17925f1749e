package server

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

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
		checks = append(checks, loopbackCertificate)
	}
	for _, name := range s.finished {
		c := health.Finished("poststarthook/" + name)
		if name == discoveryHook && s.Aggregator != nil {
			c.Run = s.discoveryComplete
		}
		checks = append(checks, c)
	}
	if path == "readyz" {
		checks = append(checks, health.Check{Name: "shutdown", Run: s.notDraining})
	}
	return checks
}

// loopbackCertificate always passes: the server needs no certificate for requests to itself. That of kube-apiserver expires.
var loopbackCertificate = health.Finished("loopback-serving-certificate")

// newHealth returns the handler of a health path with checks in kube-apiserver's order.
func newHealth(path string, logger *slog.Logger, checks func(path string) []health.Check) *health.Handler {
	return health.New(path, logger, func() []health.Check { return inOrder(checks(path)) })
}

// checkOrder is kube-apiserver's order of checks and post-start hooks, of which a server may leave some out. Checks of keys have the place of "".
var checkOrder = []string{"ping", "log", "loopback-serving-certificate", "etcd", "etcd-readiness", "", "informer-sync",
	"start-encryption-provider-config-automatic-reload", "start-apiserver-admission-initializer", "generic-apiserver-start-informers",
	"priority-and-fairness-config-consumer", "priority-and-fairness-filter", "max-in-flight-filter",
	"storage-object-count-tracker-hook", "start-apiextensions-informers",
	"start-apiextensions-controllers", "crd-informer-synced", "start-system-namespaces-controller",
	"peer-endpoint-reconciler-controller", "start-cluster-authentication-info-controller",
	"start-kube-apiserver-identity-lease-controller", "start-kube-apiserver-identity-lease-garbage-collector",
	"storage-readiness", "start-legacy-token-tracking-controller",
	"start-service-ip-repair-controllers", "rbac/bootstrap-roles",
	"scheduling/bootstrap-system-priority-classes", "priority-and-fairness-config-producer",
	"bootstrap-controller", "start-kubernetes-service-cidr-controller",
	"aggregator-reload-proxy-client-cert", "start-kube-aggregator-informers",
	"apiservice-status-local-available-controller", "apiservice-status-remote-available-controller",
	"apiservice-registration-controller", "apiservice-discovery-controller",
	"kube-apiserver-autoregistration", "autoregister-completion", "apiservice-openapi-controller",
	"apiservice-openapiv3-controller", "shutdown"}

// inOrder returns checks in kube-apiserver's order.
func inOrder(checks []health.Check) []health.Check {
	ordered := make([]health.Check, 0, len(checks))
	for _, name := range checkOrder {
		for _, c := range checks {
			is := strings.TrimPrefix(c.Name, "poststarthook/")
			if is == name || name == "" && !slices.Contains(checkOrder, is) {
				ordered = append(ordered, c)
			}
		}
	}
	return ordered
}

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

// Hooks are the names of the post-start hooks that New finishes, and of discoveryHook.
var Hooks = []string{"storage-readiness", "start-apiserver-admission-initializer", "generic-apiserver-start-informers", "start-kube-aggregator-informers",
	"storage-object-count-tracker-hook", discoveryHook, "apiservice-openapi-controller", "apiservice-openapiv3-controller"}

// discoveryHook is the hook that ends, some time after New, when all servers of APIServices were asked what they serve.
const discoveryHook = "apiservice-discovery-controller"

// flowHooks are the post-start hooks of the limits on requests, with or without priority and fairness.
func flowHooks(unfair bool) []string {
	if unfair {
		return []string{"max-in-flight-filter"}
	}
	return []string{"priority-and-fairness-config-consumer", "priority-and-fairness-filter"}
}

// definitionHooks are the post-start hooks of a server with CustomResourceDefinitions.
var definitionHooks = []string{"start-apiextensions-informers", "start-apiextensions-controllers", "crd-informer-synced"}

func (s *Server) discoveryComplete(*http.Request) error {
	if !s.Aggregator.Asked() {
		return errNotDone
	}
	return nil
}

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
