// Package auditing records requests as kube-apiserver's audit does ("Auditing" of the Kubernetes documentation): which of them, at
// which level and in which stages a policy says, and events go to a file, to a webhook, or both. Policies, events and back ends are
// upstream's (k8s.io/apiserver/pkg/audit and plugin/pkg/audit).
//
//	options.go    what kube-apiserver's flags say
//	backend.go    the back ends that they come to
//	auditor.go    the policy and the back ends: the audit of a server
//	request.go    the audit of one request of a client
//	own.go        that of a write of the server's own, which no request is sent for
//	objects.go    what was sent and answered, as an event has it
//	log.go        events as lines of JSON
//
// Invariants: a request has the same audit ID in all its events and in the header of its answer. What is recorded of it was sent,
// answered, or decided about it: where that is not known, the field is empty. An event is handed to the back ends before the answer
// that it tells of is sent on (RequestReceived, ResponseStarted), or when that is over (ResponseComplete, Panic).
package auditing
