// Package server is the HTTP side of Rowlock: the request chain, the verbs, discovery, health and metrics, over a
// resources.Registry, a resources.View and the resources.Pipeline of all writes.
//
//	server.go       what a server is made of; serving and draining
//	chain.go        what every request passes through, in order
//	routes.go       the fixed paths, and the one route for the API
//	index.go        the list of paths
//	checks.go       what the health checks are
//	errors.go       the one place that writes an error
//	fixed.go        version, the keys of ServiceAccounts' issuer; zpages.go, /flagz and /statusz
//	impersonation.go   requests as another user
//	audit.go        what the audit is told of every request; auditing/, which records it
//	limits.go       how many requests are under way at once
//	warnings.go     Warning headers
//	metrics.go      what is counted
//	admission.go    the plugins, and the client that they reach the API with
//	trim.go         memory that goes back after a burst of requests; madvise_*.go, that of the program's file
//	flow.go         the headers of priority and fairness; flow_match.go, by which rules; flow_dump.go, pages about it
//	handlers/       the verbs
//	codec/          media types, and objects to bytes
//	cork/           connections on which an answer leaves in one write
//	status/         errors to Status
//	authn/ health/ discovery/ openapi/ version/ pki/
//	controlplane/   what works without being asked; nothing here knows it
package server
