// Package server is the HTTP side of Rowlock: the request chain, the verbs, discovery, health and metrics, over a
// resources.Registry, a resources.View and the resources.Pipeline of all writes.
//
// Serving:
//
//	server.go      configuration, serving and draining
//	http.go        settings of all responses and all connections
//	entrance.go    connections, and requests before there is a server
//	chain.go       the middleware of every request, in order
//	deadline.go    the deadlines of requests
//	routes.go      the fixed paths, and the one route for the API
//	index.go       the list of paths
//	errors.go      the only place that writes errors
//	warnings.go    Warning headers
//	client.go      requests from parts of the process
//	aggregated.go  requests forwarded to servers behind APIServices
//
// Users, admission and audit:
//
//	impersonation.go        requests as another user
//	impersonation_modes.go  constrained impersonation
//	issuedtokens.go         the path at which rowlock token requests tokens
//	admission.go            the plugins, and their client for the API; admission_metrics.go, their metrics
//	audit.go                the audit events of every request
//
// Priority and fairness:
//
//	flow.go        its place in the chain, and its headers
//	flow_feed.go   feeds the configuration to upstream's controller
//	flow_known.go  requests that upstream has classified before
//	flow_seats.go  seats beside the queues while no request waits
//	flow_handover.go  requests on these seats when others have to wait
//	flow_width.go  how many seats a list takes
//
// Beside the API:
//
//	checks.go            the health checks
//	fixed.go             the version, the keys of ServiceAccounts' issuer
//	zpages.go            /flagz and /statusz
//	debug.go             paths below /debug
//	debugsocket.go       the same on a socket
//	metrics.go           the metrics' registration
//	metrics_requests.go  labels of the metrics of requests
//	metrics_access.go    metrics of authentication and authorization
//	metrics_stored.go    metrics of stored objects
//	metrics_commits.go   metrics of the store's writes
//	metrics_ended.go     metrics that end with versions that are no longer served
//	metrics_upstream.go  metrics of upstream's packages
//	metrics_limits.go    hidden metrics and values of labels
//	connection_log.go    the log of connections
//
// Memory:
//
//	trim.go           memory returned to the system after a burst of requests
//	madvise_linux.go  memory of the program's file
//	madvise_other.go  systems without it
//
// Packages:
//
//	aggregate/     resources of other servers
//	auditing/      audit events
//	authn/         authentication
//	authz/         authorization
//	codec/         media types, and encoding of objects
//	cork/          connections on which a response leaves in one write
//	discovery/     the served groups, versions and resources
//	h2/            HTTP/2
//	handlers/      the verbs
//	health/        /healthz, /livez and /readyz
//	openapi/       the OpenAPI documents
//	pki/           certificates, and the keys of tokens
//	runs/          lists joined of compressed runs
//	servertest/    servers for tests
//	status/        errors to Status
//	controlplane/  background work; nothing in this package depends on it
package server
