package handlers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// counts are kube-apiserver's histograms whose values only the handlers know.
type counts struct {
	bodies, watchLists *prometheus.HistogramVec
	lists              listCounts
	shards             shardCounts
	terminated         *prometheus.CounterVec
}

func newCounts() counts {
	return counts{
		lists:  newListCounts(),
		shards: newShardCounts(),
		terminated: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_terminated_watchers_total",
			Help: "Counter of watchers closed due to unresponsiveness broken by resource type."}, []string{"group", "resource"}),
		bodies: upstream.NewHistogramVec("apiserver_request_body_size_bytes",
			"Apiserver request body size in bytes broken out by resource and verb.",
			prometheus.LinearBuckets(50000, 100000, 31), "group", "resource", "verb"),
		watchLists: upstream.NewHistogramVec("apiserver_watch_list_duration_seconds",
			"Response latency distribution in seconds for watch list requests broken by group, version, resource and scope.",
			[]float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300}, "group", "version", "resource", "scope"),
	}
}

// read counts the body of a request that changes objects.
func (c counts) read(q *request, bytes int) {
	verb := q.info.Verb
	switch verb {
	case "deletecollection":
		verb = "delete_collection" // kube-apiserver's spelling in this metric alone
	case "create", "update", "patch", "delete":
	default:
		return
	}
	c.bodies.WithLabelValues(q.info.APIGroup, q.info.Resource, verb).Observe(float64(bytes))
}

// listed counts a watch that began with a list, once the list has been sent. kube-apiserver does not count those over WebSocket.
func (c counts) listed(w *watchStream) {
	if w.sent == nil {
		return
	}
	scope, name := "cluster", ""
	if by := w.opts.FieldSelector; by != nil {
		name, _ = by.RequiresExactMatch("metadata.name") // in all namespaces, too
	}
	switch {
	case name != "":
		scope = "resource"
	case w.selection.namespace != "":
		scope = "namespace"
	}
	version := w.q.served.GVR()
	c.watchLists.WithLabelValues(version.Group, version.Version, version.Resource, scope).Observe(time.Since(w.began).Seconds())
}

// terminations returns what counts a watch of a resource that ends because its client reads nothing.
func (c counts) terminations(of *resources.Served) func() {
	all, resource := c.terminated, of.GroupResource // each watch keeps the function, and would keep a definition that was replaced
	return func() { all.WithLabelValues(resource.Group, resource.Resource).Inc() }
}

// forget removes the series of a version. Those of bodies have no version: they go with the resource's last version.
func (c counts) forget(version schema.GroupVersionResource, last bool) {
	c.watchLists.DeletePartialMatch(prometheus.Labels{"group": version.Group, "version": version.Version, "resource": version.Resource})
	if last {
		resource := prometheus.Labels{"group": version.Group, "resource": version.Resource}
		c.bodies.DeletePartialMatch(resource)
		c.lists.forget(resource)
		c.shards.forget(resource)
		c.terminated.DeletePartialMatch(resource)
	}
}
