package handlers

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listCounts are kube-apiserver's counters of lists and their objects. All lists count as served from the watch cache: without an index, and with
// no objects evaluated that had to be read from etcd.
type listCounts struct {
	total, fetched, evaluated, returned *prometheus.CounterVec
}

func newListCounts() listCounts {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_storage_list_" + name, Help: help}, labels)
	}
	return listCounts{
		total:     counter("total", "Number of LIST requests served from storage", "group", "resource", "storage", "index"),
		fetched:   counter("fetched_objects_total", "Number of objects read from storage in the course of serving a LIST request", "group", "resource", "storage", "index"),
		evaluated: counter("evaluated_objects_total", "Number of objects tested in the course of serving a LIST request from storage", "group", "resource", "storage"),
		returned:  counter("returned_objects_total", "Number of objects returned for a LIST request from storage", "group", "resource", "storage"),
	}
}

func (c listCounts) all() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{c.total, c.fetched, c.evaluated, c.returned}
}

// add counts a list.
func (c listCounts) add(of schema.GroupResource, fetched, returned int) {
	const cache = "watchcache"
	c.total.WithLabelValues(of.Group, of.Resource, cache, "").Inc()
	c.fetched.WithLabelValues(of.Group, of.Resource, cache, "").Add(float64(fetched))
	c.evaluated.WithLabelValues(of.Group, of.Resource, cache).Add(0)
	c.returned.WithLabelValues(of.Group, of.Resource, cache).Add(float64(returned))
}

// forget removes the series of a resource.
func (c listCounts) forget(resource prometheus.Labels) {
	for _, counter := range c.all() {
		counter.DeletePartialMatch(resource)
	}
}
