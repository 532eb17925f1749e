package handlers

import (
	"testing"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// BenchmarkBodies measures counting a body.
func BenchmarkBodies(b *testing.B) {
	c, q := newCounts(), &request{info: &genericapirequest.RequestInfo{Verb: "create", APIGroup: "apps", Resource: "deployments"}}
	for b.Loop() {
		c.read(q, 1000)
	}
}
