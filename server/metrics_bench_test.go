package server

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/resources"
)

// BenchmarkSteps measures the timing of the filters that one request passes.
func BenchmarkSteps(b *testing.B) {
	access, err := newAccessMetrics(prometheus.NewRegistry(), "impersonation", false)
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for b.Loop() {
		access.series().known.filter.Observe(1e-5)
		access.series().allowed.filter.Observe(1e-5)
		access.series().filters.audit.Observe(0)
		access.series().filters.impersonation.Observe(0)
		access.series().filters.flow.Observe(time.Since(began).Seconds())
	}
}

// BenchmarkCommits measures counting one commit.
func BenchmarkCommits(b *testing.B) {
	t, err := newCommitTimes(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	w := []resources.Write{{Op: resources.Create, Key: resources.Key{Resource: "deployments.apps"}}}
	for b.Loop() {
		t.committed(w, nil, time.Millisecond)
	}
}
