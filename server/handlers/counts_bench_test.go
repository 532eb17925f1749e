package handlers

import (
	"testing"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// BenchmarkBodies is what it costs to count a body.
func BenchmarkBodies(b *testing.B) {
	c, q := newCounts(), &request{info: &genericapirequest.RequestInfo{Verb: "create", APIGroup: "apps", Resource: "deployments"}}
	for b.Loop() {
		c.read(q, 1000)
	}
}
