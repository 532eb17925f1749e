package server

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// commitTimes are the metrics of the store's writes, under kube-apiserver's names for requests to etcd.
type commitTimes struct {
	took           *prometheus.HistogramVec
	asked, failing *prometheus.CounterVec
	// known caches series by commitKey until a reset: a lookup by labels takes longer than the increment.
	known atomic.Pointer[sync.Map]
}

type commitKey struct {
	op       resources.Op
	resource string
}

type commitSeries struct {
	took           prometheus.Observer
	asked, failing prometheus.Counter
}

var operations = map[resources.Op]string{resources.Create: "create", resources.Update: "update", resources.Delete: "delete"}

func newCommitTimes(r *prometheus.Registry) (*commitTimes, error) {
	labels := []string{"operation", "group", "resource"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	t := &commitTimes{
		took: upstream.NewHistogramVec("etcd_request_duration_seconds",
			"How long the store took for writes, by operation and type: there is no etcd.",
			slices.Concat([]float64{0.005, 0.025}, sliBuckets), labels...),
		asked:   counter("etcd_requests_total", "Writes to the store, by operation and type."),
		failing: counter("etcd_request_errors_total", "Writes that the store could not do, by operation and type; conflicts are none."),
	}
	t.known.Store(&sync.Map{})
	for _, c := range []prometheus.Collector{t.took, t.asked, t.failing} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// committed counts a commit; see resources.Pipeline.CountCommits.
func (t *commitTimes) committed(writes []resources.Write, err error, took time.Duration) {
	failed := failed(err)
	for i := range writes {
		if writes[i].Op == resources.Expect {
			continue
		}
		series := t.of(commitKey{writes[i].Op, writes[i].Key.Resource})
		series.took.Observe(took.Seconds())
		series.asked.Inc()
		if failed {
			series.failing.Inc()
		}
	}
}

// failed tells whether kube-apiserver counts the error as one of etcd. It does not count failed preconditions, to which a transaction of etcd
// answers without an error.
func failed(err error) bool {
	var conflict *resources.ConflictError
	var expected *resources.ExpectationError
	return err != nil && !errors.Is(err, resources.ErrExists) && !errors.Is(err, resources.ErrNotFound) && !errors.As(err, &conflict) && !errors.As(err, &expected)
}

func (t *commitTimes) of(key commitKey) *commitSeries {
	all := t.known.Load()
	if known, ok := all.Load(key); ok {
		return known.(*commitSeries)
	}
	of := schema.ParseGroupResource(key.resource)
	labels := []string{operations[key.op], of.Group, of.Resource}
	series := &commitSeries{t.took.WithLabelValues(labels...), t.asked.WithLabelValues(labels...), t.failing.WithLabelValues(labels...)}
	all.Store(key, series) // not into the cache after a reset, if there was one meanwhile
	return series
}

// reset removes all series.
func (t *commitTimes) reset() {
	t.took.Reset()
	t.asked.Reset()
	t.failing.Reset()
	t.known.Store(&sync.Map{})
}

// forget removes the series of a type.
func (t *commitTimes) forget(of schema.GroupResource) {
	for op := range operations {
		t.known.Load().Delete(commitKey{op, of.String()})
	}
	labels := prometheus.Labels{"group": of.Group, "resource": of.Resource}
	t.took.DeletePartialMatch(labels)
	t.asked.DeletePartialMatch(labels)
	t.failing.DeletePartialMatch(labels)
}
