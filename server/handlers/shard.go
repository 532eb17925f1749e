package handlers

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	serversharding "k8s.io/apiserver/pkg/sharding"

	"github.com/rowlock/rowlock/resources"
)

// shard is a part of a collection, selected by the hash of a field of its objects (KEP-5866). Nil is the whole collection.
type shard struct {
	selector sharding.Selector
	// object has the fields that the selector reads.
	object metav1.PartialObjectMetadata
	// For a watch: the gauge of open watches, and the counter of objects outside the shard.
	watches prometheus.Gauge
	others  prometheus.Counter
}

// shard parses the shardSelector of a list or a watch, which is ignored unless Config.Shards is set. The error is kube-apiserver's, which answers
// it with 500 and without a reason.
func (h *Handlers) shard(opts *metainternalversion.ListOptions) (*shard, error) {
	if opts.ShardSelector == "" || !h.Shards {
		return nil, nil
	}
	selector, err := serversharding.Parse(opts.ShardSelector)
	if err != nil {
		return nil, fmt.Errorf("invalid shard selector: %w", err)
	}
	return &shard{selector: selector}, nil
}

// has tells whether an object is in the shard.
func (s *shard) has(o *resources.Object) bool {
	if s == nil {
		return true
	}
	s.object.UID, s.object.Namespace = types.UID(o.UID()), o.Namespace
	matches, err := s.selector.Matches(&s.object)
	if err != nil || !matches { // no error is possible: parsing has checked the field
		if s.others != nil {
			s.others.Inc()
		}
		return false
	}
	return true
}

// info describes the shard in the metadata of a list.
func (s *shard) info() *metav1.ShardInfo {
	if s == nil {
		return nil
	}
	return &metav1.ShardInfo{Selector: s.selector.String()}
}

// shardCounts are kube-apiserver's metrics of watches of shards.
type shardCounts struct {
	watches  *prometheus.GaugeVec
	filtered *prometheus.CounterVec
}

func newShardCounts() shardCounts {
	labels := []string{"group", "resource"}
	return shardCounts{
		watches: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_watch_shards_total",
			Help: "Number of active sharded watch connections broken by resource type."}, labels),
		filtered: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_watch_filtered_events_total",
			Help: "Counter of events filtered out by shard selector during watch dispatch, broken by resource type."}, labels),
	}
}

// begin counts a watch of a shard until its end.
func (c shardCounts) begin(w *watchStream) {
	if s := w.selection.shard; s != nil {
		s.watches = c.watches.WithLabelValues(w.q.info.APIGroup, w.q.info.Resource)
		s.others = c.filtered.WithLabelValues(w.q.info.APIGroup, w.q.info.Resource)
		s.watches.Inc()
	}
}

// end ends the count of a watch.
func (s *shard) end() {
	if s != nil && s.watches != nil {
		s.watches.Dec()
	}
}

// forget removes the series of a resource that is no longer served.
func (c shardCounts) forget(resource prometheus.Labels) {
	c.watches.DeletePartialMatch(resource)
	c.filtered.DeletePartialMatch(resource)
}
