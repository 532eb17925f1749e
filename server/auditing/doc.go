// Package auditing records requests as kube-apiserver's audit does ("Auditing" of the Kubernetes documentation): a policy decides which
// requests are recorded, at which level and in which stages, and the events go to a file, to a webhook, or both. Policies, events and
// back ends are upstream's (k8s.io/apiserver/pkg/audit and plugin/pkg/audit).
//
//	options.go    the options of kube-apiserver's flags
//	backend.go    the back ends for the options
//	auditor.go    the policy and the back ends: the audit of a server
//	request.go    the audit of one request of a client
//	own.go        the audit of a write of the server's own, for which there is no request
//	objects.go    the request and response objects of an event
//	log.go        events as lines of JSON
//
// Invariants: all events of a request have the audit ID that the header of its answer has. An event contains only what was sent, answered
// or decided about the request: a field whose value is not known is empty. An event is handed to the back ends before the answer that it
// reports is sent on (RequestReceived, ResponseStarted), or when the answer is over (ResponseComplete, Panic).
package auditing
