package handlers

import (
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sizesOfEvents is the number of buckets for event sizes: 1 KiB, 2 KiB, and so on, as kube-apiserver's.
const sizesOfEvents = 8

// sentEvents counts the events that watches of a version have sent. A watch looks its counters up once, and makes two additions for each event.
type sentEvents struct {
	sizes [sizesOfEvents + 1]atomic.Uint64 // the last counts events larger than all bounds
	bytes atomic.Uint64
}

// add counts an event whose frame has n bytes.
func (s *sentEvents) add(n int) {
	s.sizes[min(bits.Len(uint(max(n-1, 0))>>10), sizesOfEvents)].Add(1)
	s.bytes.Add(uint64(n)) //nolint:gosec // bytes that were written
}

// sentByVersion has the counters of all versions that were watched, until they are forgotten.
type sentByVersion struct {
	mu  sync.Mutex
	all map[schema.GroupVersionResource]*sentEvents
}

func (s *sentByVersion) of(version schema.GroupVersionResource) *sentEvents {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[schema.GroupVersionResource]*sentEvents{}
	}
	n := s.all[version]
	if n == nil {
		n = &sentEvents{}
		s.all[version] = n
	}
	return n
}

// Forget removes the series of a version.
func (h *Handlers) Forget(version schema.GroupVersionResource) {
	h.sent.mu.Lock()
	defer h.sent.mu.Unlock()
	delete(h.sent.all, version)
	_, served := h.Registry.Catalog().Type(version.GroupResource().String())
	h.counts.forget(version, !served)
}

var (
	versionLabels = []string{"group", "version", "resource"}
	eventsTotal   = prometheus.NewDesc("apiserver_watch_events_total", "Number of events sent in watch clients", versionLabels, nil)
	eventsSizes   = prometheus.NewDesc("apiserver_watch_events_sizes", "Watch event size distribution in bytes", versionLabels, nil)
)

// Describe implements prometheus.Collector, for the events of watches and for counts.
func (h *Handlers) Describe(to chan<- *prometheus.Desc) {
	to <- eventsTotal
	to <- eventsSizes
	h.counts.bodies.Describe(to)
	h.counts.watchLists.Describe(to)
	h.counts.terminated.Describe(to)
	h.counts.shards.watches.Describe(to)
	h.counts.shards.filtered.Describe(to)
	for _, counter := range h.counts.lists.all() {
		counter.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (h *Handlers) Collect(to chan<- prometheus.Metric) {
	h.counts.bodies.Collect(to)
	h.counts.watchLists.Collect(to)
	h.counts.terminated.Collect(to)
	h.counts.shards.watches.Collect(to)
	h.counts.shards.filtered.Collect(to)
	for _, counter := range h.counts.lists.all() {
		counter.Collect(to)
	}
	h.sent.mu.Lock()
	defer h.sent.mu.Unlock()
	for version, sent := range h.sent.all {
		total, upTo := uint64(0), make(map[float64]uint64, sizesOfEvents)
		for i := range sent.sizes {
			if total += sent.sizes[i].Load(); i < sizesOfEvents {
				upTo[float64(int(1024)<<i)] = total
			}
		}
		to <- prometheus.MustNewConstMetric(eventsTotal, prometheus.CounterValue, float64(total), version.Group, version.Version, version.Resource)
		to <- prometheus.MustNewConstHistogram(eventsSizes, total, float64(sent.bytes.Load()), upTo, version.Group, version.Version, version.Resource)
	}
}

// countedFrame is the frame being written.
type countedFrame struct {
	to io.Writer
	n  int
}

// Write implements io.Writer.
func (f *countedFrame) Write(p []byte) (int, error) {
	n, err := f.to.Write(p)
	f.n += n
	return n, err
}
