// Package server is the HTTP side of Rowlock: the request chain, the verbs, discovery, health and metrics, over a
// resources.Registry, a resources.View and the resources.Pipeline of all writes.
//
//	server.go       what a server is made of; serving and draining
//	chain.go        what every request passes through, in order
//	routes.go       the fixed paths, and the one route for the API
//	index.go        the list of paths
//	checks.go       what the health checks are
//	errors.go       the one place that writes an error
//	metrics.go      what is counted
//	admission.go    the plugins, and the client that they reach the API with
//	trim.go         memory that goes back after a burst of requests
//	flow.go         the headers of priority and fairness
//	handlers/       the verbs
//	codec/          media types, and objects to bytes
//	cork/           connections on which an answer leaves in one write
//	status/         errors to Status
//	authn/ health/ discovery/ openapi/ version/ pki/
//	controlplane/   what works without being asked; nothing here knows it
package server
