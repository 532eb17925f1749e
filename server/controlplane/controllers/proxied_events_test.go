package controllers

import (
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// Namespaces are looked at again when the proxying of a version begins or ends, and not for each other change of an APIService.
func TestNamespacesFollowProxying(t *testing.T) {
	state := func(name, data string) *resources.Object {
		return &resources.Object{Key: resources.Key{Resource: apiServicesResource, Name: name}, Data: []byte(data)}
	}
	const name = "v1.example.com"
	here, flapped := state(name, `{"spec":{}}`), state(name, `{"spec":{},"status":{}}`)
	there, failed := state(name, `{"spec":{"service":{"name":"s"}}}`), state(name, `{"spec":{"service":{"name":"s"}},"status":{}}`)
	core, own := state("v1.", `{"spec":{"service":{"name":"s"}}}`), state("v2.apiregistration.k8s.io", `{"spec":{"service":{"name":"s"}}}`) // are never proxied
	for _, c := range []struct {
		change string
		event  *resources.Event
		want   int
	}{
		{"one of this server appears", &resources.Event{Op: resources.Create, Object: here}, 0},
		{"one of this server changes", &resources.Event{Op: resources.Update, Object: flapped, Prev: here}, 0},
		{"one of this server goes", &resources.Event{Op: resources.Delete, Object: flapped}, 0},
		{"one of another server appears", &resources.Event{Op: resources.Create, Object: there}, 1},
		{"one of another server changes", &resources.Event{Op: resources.Update, Object: failed, Prev: there}, 0},
		{"one of another server goes", &resources.Event{Op: resources.Delete, Object: failed}, 1},
		{"one gets a Service", &resources.Event{Op: resources.Update, Object: there, Prev: here}, 1},
		{"one loses its Service", &resources.Event{Op: resources.Update, Object: here, Prev: there}, 1},
		{"that of the core group appears", &resources.Event{Op: resources.Create, Object: core}, 0},
		{"that of APIServices appears", &resources.Event{Op: resources.Create, Object: own}, 0},
	} {
		n := newNamespaces(Config{})
		n.forget()
		n.ending["ns"] = &ending{}
		n.observe(c.event)
		if got := n.queue.Len(); got != c.want {
			t.Errorf("%s: %d namespaces are looked at, want %d", c.change, got, c.want)
		}
	}
}
