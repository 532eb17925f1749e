package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rowlock/rowlock/resources"
)

// Errors of writes are counted like those of requests to etcd, except failed preconditions.
func TestFailedCommitsAreCounted(t *testing.T) {
	times, err := newCommitTimes(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	key := resources.Key{Resource: "deployments.apps", Name: "a"}
	now := &resources.Object{Key: key, Revision: 7}
	for _, c := range []struct {
		err    error
		failed float64
	}{
		{nil, 0},
		{&resources.ConflictError{Key: key, Current: now}, 0}, {&resources.ExpectationError{Key: key, Current: now}, 0},
		{resources.ErrExists, 0}, {resources.ErrNotFound, 0},
		{resources.ErrUnavailable, 1}, {resources.ErrUnknownOutcome, 1}, {resources.ErrTooLarge, 1}, {resources.ErrRefused, 1},
		{resources.ErrBusy, 1}, {resources.ErrClosed, 1}, {context.Canceled, 1}, {context.DeadlineExceeded, 1},
	} {
		if c.err != nil {
			c.err = fmt.Errorf("of some write: %w", c.err)
		}
		counter := times.of(commitKey{resources.Update, key.Resource}).failing
		before := testutil.ToFloat64(counter)
		times.committed([]resources.Write{{Op: resources.Update, Key: key}, {Op: resources.Expect, Key: key}}, c.err, time.Second)
		if n := testutil.ToFloat64(counter) - before; n != c.failed {
			t.Errorf("%v: %v errors are counted", c.err, n)
		}
	}
}

// The count of replaced values does not decrease when series are removed, as those of a definition are.
func TestReplacedValuesStayCounted(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	seen := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "seen_total"}, []string{"resource"})
	registry.MustRegister(seen, prometheus.NewCounter(prometheus.CounterOpts{Name: unexpectedTotal}))
	seen.WithLabelValues("widgets").Add(3)
	seen.WithLabelValues("pods").Add(2)
	limited := MetricLimits{Labels: map[string]string{"seen_total,resource": "pods"}}.limited(registry)
	replaced := func() float64 {
		t.Helper()
		families, err := limited.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == unexpectedTotal {
				return f.Metric[0].GetCounter().GetValue()
			}
		}
		t.Fatal("it is not counted")
		return 0
	}
	for range 2 {
		if n := replaced(); n != 3 {
			t.Errorf("%v of 3 are counted", n)
		}
	}
	seen.DeleteLabelValues("widgets")
	if n := replaced(); n != 3 {
		t.Errorf("%v of 3 are counted when the series is gone", n)
	}
}
