// Package server is the HTTP side of Rowlock: the request chain, the verbs, discovery, health and metrics, over a
// resources.Registry, a resources.View and the resources.Pipeline of all writes.
//
// Serving:
//
//	server.go      what a server is made of; serving and draining
//	http.go        what all answers and all connections have in common
//	chain.go       what every request passes through, in order
//	routes.go      the fixed paths, and the one route for the API
//	index.go       the list of paths
//	errors.go      the one place that writes an error
//	warnings.go    Warning headers
//	client.go      requests that a part of the process sends
//	aggregated.go  requests that are passed on to servers behind APIServices
//
// Who asks, and what is kept of it:
//
//	impersonation.go        requests as another user
//	impersonation_modes.go  its modes, with rights of their own
//	issuedtokens.go         where rowlock token asks for tokens
//	admission.go            the plugins, and the client that they reach the API with
//	audit.go                what the audit is told of every request
//
// Priority and fairness:
//
//	flow.go        its place in the chain, and its headers
//	flow_feed.go   upstream's controller hears of the configuration
//	flow_known.go  requests that upstream has classified before
//	flow_seats.go  seats beside the queues while nobody waits
//	flow_width.go  how many seats a list takes
//
// Beside the API:
//
//	checks.go            what the health checks are
//	fixed.go             the version, the keys of ServiceAccounts' issuer
//	zpages.go            /flagz and /statusz
//	debug.go             what is below /debug
//	debugsocket.go       the same on a socket
//	metrics.go           what is counted
//	metrics_requests.go  the labels of what is counted of requests
//	metrics_access.go    of who asks, and may
//	metrics_stored.go    of what there is
//	metrics_ended.go     what goes with versions that are not served any more
//	metrics_upstream.go  what upstream's packages count
//	connection_log.go    what is said of connections
//
// Memory:
//
//	trim.go           memory that goes back after a burst of requests
//	madvise_linux.go  that of the program's file
//	madvise_other.go  not there
//
// Packages:
//
//	aggregate/     what other servers serve
//	auditing/      the records of requests
//	authn/         who sent a request
//	authz/         who may do what
//	codec/         media types, and objects to bytes
//	cork/          connections on which an answer leaves in one write
//	discovery/     which groups, versions and resources there are
//	h2/            HTTP/2
//	handlers/      the verbs
//	health/        answering /healthz, /livez and /readyz
//	openapi/       the description of the API
//	pki/           certificates, and the keys of tokens
//	runs/          lists joined of compressed runs
//	servertest/    servers for tests
//	status/        errors to Status
//	controlplane/  what works without being asked; nothing here knows it
package server
