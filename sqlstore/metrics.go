package sqlstore

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"

	"github.com/rowlock/rowlock/resources"
)

// metrics are the store's Prometheus metrics.
type metrics struct {
	registerer prometheus.Registerer
	all        []prometheus.Collector
	watchers   atomic.Int64
	events     *prometheus.CounterVec
	batch      prometheus.Histogram
	latency    prometheus.Histogram
	upkeep     *prometheus.HistogramVec
}

func newMetrics(s *Store, r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		registerer: r,
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rowlock_store_events_total",
			Help: "Changes made visible, by operation."}, []string{"op"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rowlock_store_commit_writes",
			Help: "Writes per committed transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rowlock_store_commit_seconds",
			Help:    "How long a transaction took from its first write to being visible.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
		upkeep: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rowlock_store_upkeep_seconds",
			Help:    "How long a step of upkeep kept the next transaction waiting, by work: prune, vacuum, checkpoint.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1}}, []string{"work"}),
	}
	gauge := func(name, help string, value func() float64) {
		m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	number := func(n *atomic.Int64) func() float64 { return func() float64 { return float64(n.Load()) } }
	gauge("rowlock_store_revision", "Revision of the last visible write.", number(&s.revisions.current))
	gauge("rowlock_store_history_oldest_revision", "Oldest revision that can be read or watched from.", number(&s.floor))
	gauge("rowlock_store_history_bytes", "Bytes of objects in history.", number(&s.historyBytes))
	gauge("rowlock_store_history_age_seconds", "Age of the oldest change in history.", s.historyAge)
	m.all = append(m.all, databaseSize{s})
	if written := writtenBytes(procfs.DefaultMountPoint); written != nil && s.peers == nil { // with Postgres, other processes write the database
		m.all = append(m.all, written)
	}
	gauge("rowlock_store_watchers", "Open watches.", number(&m.watchers))
	m.all = append(m.all, m.events, m.batch, m.latency, m.upkeep)
	m.all = append(m.all, s.recorder.collectors()...)
	if r == nil {
		return m, nil
	}
	for i, c := range m.all {
		if err := r.Register(c); err != nil {
			m.all = m.all[:i]
			m.unregister()
			return nil, err
		}
	}
	return m, nil
}

// databaseSize is the size of the database, under Rowlock's name and kube-apiserver's. It is queried once per scrape.
type databaseSize struct{ *Store }

var (
	databaseBytes = prometheus.NewDesc("rowlock_store_database_bytes", "Size of the database.", nil, nil)
	storageBytes  = prometheus.NewDesc("apiserver_storage_size_bytes", "Size of the database, under the name of kube-apiserver's metric.",
		[]string{"storage_cluster_id"}, nil)
)

// Describe implements prometheus.Collector.
func (s databaseSize) Describe(to chan<- *prometheus.Desc) {
	to <- databaseBytes
	to <- storageBytes
}

// askedIn is how long a scrape waits for the database, as in kube-apiserver.
const askedIn = time.Second

// Collect implements prometheus.Collector. A size that cannot be read is -1.
func (s databaseSize) Collect(to chan<- prometheus.Metric) {
	ctx, end := context.WithTimeout(context.Background(), askedIn)
	defer end()
	size, kind := float64(-1), "postgres"
	if n, err := s.db.size(ctx); err == nil {
		size = float64(n)
	}
	if s.peers == nil {
		kind = "sqlite"
	}
	to <- prometheus.MustNewConstMetric(databaseBytes, prometheus.GaugeValue, size)
	to <- prometheus.MustNewConstMetric(storageBytes, prometheus.GaugeValue, size, kind)
}

// historyAge queries the database: nothing else needs it, and scrapes are rare. It is 0 if there is no history, and NaN
// if the database does not answer: then no alert on a short history may fire.
func (s *Store) historyAge() float64 {
	ctx, end := context.WithTimeout(context.Background(), askedIn)
	defer end()
	oldest, err := s.db.oldest(ctx, 1)
	switch {
	case err != nil:
		return math.NaN()
	case len(oldest) == 0:
		return 0
	}
	return s.clock.Since(milliseconds(oldest[0].at)).Seconds()
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.all {
		m.registerer.Unregister(c)
	}
}

func (m *metrics) applied(events []*resources.Event) {
	var n [resources.Delete + 1]int
	for _, e := range events {
		n[e.Op]++
	}
	for op, name := range ops {
		if n[op] > 0 {
			m.events.WithLabelValues(name).Add(float64(n[op]))
		}
	}
}

// kept observes a step of upkeep that ended now, on the committer's goroutine.
func (m *metrics) kept(work string, began time.Time) {
	m.upkeep.WithLabelValues(work).Observe(time.Since(began).Seconds())
}

func (m *metrics) committed(b *batch, d time.Duration) {
	m.batch.Observe(float64(len(b.changes)))
	m.latency.Observe(d.Seconds())
}
