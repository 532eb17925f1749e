package controlplane

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// Where servers have different ports, each EndpointSlice is restored; a slice of a user with a similar name is left alone.
func TestKeepEndpointSlices(t *testing.T) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	x, alive := newRepairs(t), []string{"1", "2"}
	member := func(name string, last byte, port int) Network {
		return Network{Address: net.IPv4(192, 0, 2, last), Port: port, Members: crew{name, &alive}, Rows: resources.NewRows(x.store), ServiceRanges: builtin.DefaultServiceNetwork().Ranges}
	}
	if err := member("2", 2, 443).membership().join(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := member("1", 1, 6443)
	k := keeper{plane: x.p, network: n, membership: n.membership()}
	happened := follower(t, x.store, keptObjects)
	k.begin()
	look := func(events []*resources.Event) {
		t.Helper()
		if _, err := k.do(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		happened() // the events of that
	}
	look(nil)
	for _, change := range []struct {
		method, name, body string
		code               int
		wrong              bool
	}{
		{"DELETE", "/kubernetes-1", "", 200, true},
		{"DELETE", "/kubernetes", "", 200, true},
		{"PATCH", "/kubernetes-1", `{"endpoints":[]}`, 200, true},
		{"POST", "", `{"metadata":{"name":"kubernetes-dashboard-x2v4q"},"addressType":"IPv4","endpoints":[]}`, 201, false},
		{"DELETE", "/kubernetes-dashboard-x2v4q", "", 200, false},
		{"POST", "", `{"metadata":{"name":"kubernetes-2"},"addressType":"IPv4","endpoints":[]}`, 201, false},
		{"PATCH", "/kubernetes-2", `{"endpoints":[{"addresses":["192.0.2.99"]}]}`, 200, false},
		{"DELETE", "/kubernetes", "", 200, true},
	} {
		x.send(change.method, path+change.name, change.body, change.code)
		events := happened()
		if wrong := slices.ContainsFunc(events, mayBeWrong); wrong != change.wrong {
			t.Errorf("%s %s: wrong is %v", change.method, change.name, wrong)
		}
		look(events)
		for name, want := range map[string]string{"/kubernetes": "192.0.2.2", "/kubernetes-1": "192.0.2.1"} {
			if got := x.send("GET", path+name, "", 200).Get("endpoints.0.addresses.0").Str; got != want {
				t.Errorf("after %s %s, %s has %s, want %s", change.method, change.name, name, got, want)
			}
		}
	}
	if got := x.send("GET", path+"/kubernetes-2", "", 200).Get("endpoints.0.addresses.0").Str; got != "192.0.2.99" {
		t.Errorf("the EndpointSlice of somebody else has %s", got)
	}
}

// follower returns a function that returns the events of objects since its last call.
func follower(t *testing.T, store resources.View, objects []resources.Key) func() []*resources.Event {
	t.Helper()
	var watches []resources.Watch
	for _, key := range objects {
		now, err := store.Snapshot(t.Context(), key.Resource, resources.At{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := store.Watch(t.Context(), resources.WatchOptions{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name, After: now.Revision()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		watches = append(watches, w)
	}
	return func() (all []*resources.Event) {
		t.Helper()
		for _, w := range watches {
			events, _, err := w.Next(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, events...)
		}
		return all
	}
}

// While no server has an endpoint, objects that are missing are not created, and others stay as they are.
func TestNoEndpoints(t *testing.T) {
	x := newRepairs(t)
	none := func(bool) ([]endpoint, error) { return nil, nil }
	paths := []string{"/api/v1/namespaces/default/endpoints/kubernetes", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"}
	for _, path := range paths {
		x.send("DELETE", path, "", 200)
	}
	if err := x.p.ensureEndpoints(t.Context(), none); err != nil {
		t.Error(err)
	}
	for _, path := range paths {
		x.send("GET", path, "", 404)
	}
	if err := x.p.ensureEndpoints(t.Context(), func(bool) ([]endpoint, error) { return []endpoint{{net.IPv4(192, 0, 2, 1), 443}}, nil }); err != nil {
		t.Fatal(err)
	}
	if err := x.p.ensureEndpoints(t.Context(), none); err != nil {
		t.Error(err)
	}
	for _, path := range paths {
		x.send("GET", path, "", 200)
	}
}

// When the last endpoint goes while a server removes an EndpointSlice, the server does not wait for the next one.
func TestLastEndpointGoesMeanwhile(t *testing.T) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes-1"
	x := newRepairs(t)
	both := []endpoint{{net.IPv4(192, 0, 2, 1), 443}, {net.IPv4(192, 0, 2, 2), 6443}}
	if err := x.p.ensureEndpoints(t.Context(), func(bool) ([]endpoint, error) { return both, nil }); err != nil {
		t.Fatal(err)
	}
	slice, _ := x.p.Registry.Catalog().Type(slicesResource)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	more, others, err := x.p.ensureEndpointSlice(ctx, slice, 1, 1, func(exists bool) ([]endpoint, error) {
		if calls++; calls > 10 {
			cancel()
		}
		if !exists {
			return nil, nil
		}
		return both[:1], nil
	})
	if more || others || err != nil || calls > 10 {
		t.Errorf("more %v, others %v, %v after %d calls", more, others, err, calls)
	}
	x.send("GET", path, "", 404)
}

// If two servers remove an EndpointSlice at the same time, both succeed.
func TestEndpointSliceRemovedByAnother(t *testing.T) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes-1"
	x := newRepairs(t)
	both := []endpoint{{net.IPv4(192, 0, 2, 1), 443}, {net.IPv4(192, 0, 2, 2), 6443}}
	if err := x.p.ensureEndpoints(t.Context(), func(bool) ([]endpoint, error) { return both, nil }); err != nil {
		t.Fatal(err)
	}
	slice, _ := x.p.Registry.Catalog().Type(slicesResource)
	more, others, err := x.p.ensureEndpointSlice(t.Context(), slice, 1, 1, func(exists bool) ([]endpoint, error) {
		if exists {
			x.send("DELETE", path, "", 200)
		}
		return both[:1], nil
	})
	if more || others || err != nil {
		t.Errorf("more %v, others %v, %v", more, others, err)
	}
	x.send("GET", path, "", 404)
}

// stuck returns endpoints, and fails the test when it is called without end.
func stuck(t *testing.T, all ...endpoint) endpointSource {
	calls := 0
	return func(bool) ([]endpoint, error) {
		if calls++; calls > 100 {
			t.Fatal("it does not end")
		}
		return all, nil
	}
}

// An EndpointSlice with the server's label and any number, as a user may create it, is left alone.
func TestEndpointSliceOfAnyNumber(t *testing.T) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	x := newRepairs(t)
	x.send("POST", path, `{"metadata":{"name":"kubernetes-2000000000","labels":{"endpointslice.kubernetes.io/managed-by":"rowlock"}},"addressType":"IPv4","endpoints":[]}`, 201)
	if err := x.p.ensureEndpoints(t.Context(), stuck(t, endpoint{net.IPv4(192, 0, 2, 1), 6443})); err != nil {
		t.Error(err)
	}
	x.send("GET", path+"/kubernetes-2000000000", "", 200)
}

// Labels of others go from the EndpointSlices of the Service, and with them all annotations; annotations alone stay.
func TestEndpointSliceLabels(t *testing.T) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
	x := newRepairs(t)
	all := []endpoint{{net.IPv4(192, 0, 2, 1), 443}, {net.IPv4(192, 0, 2, 2), 6443}}
	for _, tt := range []struct{ metadata, annotations string }{
		{`{"annotations":{"a":"b"}}`, `{"a":"b"}`},
		{`{"labels":{"example.com/strange":"yes"}}`, ``},
		{`{"labels":{"kubernetes.io/service-name":"other"},"annotations":{"a":"b"}}`, ``},
	} {
		for name, labels := range map[string]string{
			path:        `{"kubernetes.io/service-name":"kubernetes"}`,
			path + "-1": `{"endpointslice.kubernetes.io/managed-by":"rowlock","kubernetes.io/service-name":"kubernetes"}`,
		} {
			if err := x.p.ensureEndpoints(t.Context(), stuck(t, all...)); err != nil {
				t.Fatal(err)
			}
			x.send("PATCH", name, `{"metadata":`+tt.metadata+`}`, 200)
			if err := x.p.ensureEndpoints(t.Context(), stuck(t, all...)); err != nil {
				t.Fatal(err)
			}
			got := x.send("GET", name, "", 200).Get("metadata")
			if got.Get("labels").Raw != labels || got.Get("annotations").Raw != tt.annotations {
				t.Errorf("%s has labels %s and annotations %s after %s", name, got.Get("labels").Raw, got.Get("annotations").Raw, tt.metadata)
			}
		}
	}
}

// An EndpointSlice that finalizers keep is not removed again and again.
func TestEndpointSliceWithFinalizer(t *testing.T) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
	x := newRepairs(t)
	a, b, six := endpoint{net.IPv4(192, 0, 2, 1), 6443}, endpoint{net.IPv4(192, 0, 2, 2), 443}, endpoint{net.ParseIP("2001:db8::1"), 6443}
	ensure := func(all ...endpoint) {
		t.Helper()
		if err := x.p.ensureEndpoints(t.Context(), stuck(t, all...)); err != nil {
			t.Fatal(err)
		}
	}
	ensure(a, b)
	x.send("PATCH", path+"-1", `{"metadata":{"finalizers":["example.com/stays"]}}`, 200)
	ensure(a)
	x.send("PATCH", path+"-1", `{"metadata":{"finalizers":null}}`, 200)
	x.send("GET", path+"-1", "", 404)
	// The address family of a slice cannot be changed: another one has the endpoint meanwhile.
	x.send("PATCH", path, `{"metadata":{"finalizers":["example.com/stays"]}}`, 200)
	ensure(six)
	if got := x.send("GET", path+"-1", "", 200).Get("endpoints.0.addresses.0").Str; got != "2001:db8::1" {
		t.Errorf("the endpoint is %q", got)
	}
	x.send("PATCH", path, `{"metadata":{"finalizers":null}}`, 200)
	ensure(six)
	x.send("GET", path+"-1", "", 404)
	if got := x.send("GET", path, "", 200).Get("endpoints.0.addresses.0").Str; got != "2001:db8::1" {
		t.Errorf("the endpoint is %q", got)
	}
}

// However often other objects change, the servers are checked when that is due.
func TestServersAreCheckedInTime(t *testing.T) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	x, alive := newRepairs(t), []string{"1"}
	member := func(name string, last byte) Network {
		return Network{Address: net.IPv4(192, 0, 2, last), Port: 6443, Members: crew{name, &alive}, Rows: resources.NewRows(x.store), ServiceRanges: builtin.DefaultServiceNetwork().Ranges}
	}
	if err := member("2", 2).membership().join(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := member("1", 1)
	k := keeper{plane: x.p, network: n, membership: n.membership()}
	happened := follower(t, x.store, keptObjects)
	k.begin()
	if again, err := k.do(t.Context(), nil); err != nil || again != deadAfter {
		t.Fatal(again, err)
	}
	happened()
	x.send("POST", path, `{"metadata":{"name":"other"},"addressType":"IPv4","endpoints":[]}`, 201)
	time.Sleep(time.Millisecond)
	if again, err := k.do(t.Context(), happened()); err != nil || again <= 0 || again >= deadAfter {
		t.Errorf("the server that is gone is looked for in %v, %v", again, err)
	}
}

// A server that is to be no endpoint writes none, whether it knows other servers or not, and still keeps the Service.
func TestKeepWithoutEndpoint(t *testing.T) {
	const service = "/api/v1/namespaces/default/services/kubernetes"
	endpoints := []string{"/api/v1/namespaces/default/endpoints/kubernetes", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"}
	alive := []string{"a"}
	for _, members := range []Members{nil, crew{"a", &alive}} {
		x := newRepairs(t)
		n := x.network(6443)
		n.NoEndpoint, n.Members, n.Rows = true, members, resources.NewRows(x.store)
		for _, path := range append(endpoints, service) {
			x.send("DELETE", path, "", 200)
		}
		if err := x.p.BootstrapServices(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		x.send("DELETE", service, "", 200)
		c := x.p.keepServices(n)
		c.begin()
		if _, err := c.do(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		x.send("GET", service, "", 200)
		for _, path := range endpoints {
			x.send("GET", path, "", 404)
		}
		if c.end != nil {
			t.Error("it removes an endpoint when it ends")
		}
	}
}

// A server with a node port of the Service creates it with that port, and leaves an existing Service alone.
func TestServiceWithNodePort(t *testing.T) {
	const service = "/api/v1/namespaces/default/services/kubernetes"
	x := newRepairs(t)
	n := x.network(6443)
	n.NodePort = 30443
	for _, want := range []string{"ClusterIP  ", "NodePort 30443 "} {
		if err := x.p.BootstrapServices(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		spec := x.send("GET", service, "", 200).Get("spec")
		if got := fmt.Sprint(spec.Get("type").Str, " ", spec.Get("ports.0.nodePort").Raw, " "); got != want {
			t.Errorf("the Service is %q, want %q", got, want)
		}
		x.send("DELETE", service, "", 200)
	}
}
