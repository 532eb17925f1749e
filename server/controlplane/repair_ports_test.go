package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// onStore makes a server use a store.
func onStore(store resources.Store) func(*server.Config) {
	return func(c *server.Config) {
		c.Store, c.Pipeline = store, resources.NewPipeline(store, resources.PipelineOptions{})
	}
}

// portsOf returns the Services of the node ports, by the rows.
func (x *repairs) portsOf() map[int]string {
	x.Helper()
	rows, err := x.store.Snapshot(x.Context(), builtin.NodePortRows, resources.At{})
	if err != nil {
		x.Fatal(err)
	}
	of := map[int]string{}
	rows.Ascend("", "", func(o *resources.Object) bool {
		port, namespace, name, err := builtin.NodePortOf(o)
		if err != nil {
			x.Error(err)
		}
		of[port] = namespace + "/" + name
		return true
	})
	return of
}

// forget removes the allocations of ports and addresses, as if the Services had been imported.
func (x *repairs) forget() {
	x.Helper()
	rows, err := x.store.Snapshot(x.Context(), builtin.NodePortRows, resources.At{})
	if err != nil {
		x.Fatal(err)
	}
	rows.Ascend("", "", func(o *resources.Object) bool {
		if err := resources.NewRows(x.store).Delete(x.Context(), o); err != nil {
			x.Error(err)
		}
		return true
	})
	x.send("DELETE", addressPath, "", 200)
}

// repairPorts is a run of the chore that handles events; without any, it looks at everything.
func (x *repairs) repairPorts(r *portRepair, events []*resources.Event) {
	x.Helper()
	again, err := r.report.after(r.do)(x.Context(), events)
	if err != nil || (again > 0) != (len(r.report.said) > 0) || again > checkAfter {
		x.Fatalf("again in %v: %v", again, err)
	}
}

func nodePortService(name string, port int) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%d}]}}`, name, port)
}

// hooks is the server of a Plane, which looks at the state when a part of the start is finished.
type hooks func(name string)

func (hooks) UseFlows([]*flowcontrolv1.FlowSchema, []*flowcontrolv1.PriorityLevelConfiguration) {}

func (h hooks) Finish(names ...string) {
	for _, name := range names {
		h(name)
	}
}

// Before a server is ready, the Services of an import get their ports and addresses, so that no other Service does.
func TestStartAllocatesForImportedServices(t *testing.T) {
	servertest.OnBothDatabases(t, sqlstore.Options{}, func(t *testing.T, store *sqlstore.Store) {
		x := prepareRepairs(t, onStore(store))
		x.start(6443)
		ip := x.send("POST", servicesPath, nodePortService("a", 30080), 201).Get("spec.clusterIP").Str
		x.send("POST", servicesPath, `{"metadata":{"name":"b"},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":30090,`+
			`"ports":[{"port":53,"nodePort":30053,"protocol":"UDP","name":"u"},{"port":53,"nodePort":30053,"protocol":"TCP","name":"t"}]}}`, 201)
		want := map[int]string{30080: "default/a", 30090: "default/b", 30053: "default/b"}
		if diff := cmp.Diff(want, x.portsOf()); diff != "" {
			t.Fatal(diff)
		}
		x.forget()
		c, finished := x.p.Config, false
		c.Front = hooks(func(name string) {
			if name != "start-service-ip-repair-controllers" {
				return
			}
			finished = true
			if diff := cmp.Diff(want, x.portsOf()); diff != "" {
				t.Errorf("the ports when the repairs are reported as done: %s", diff)
			}
			x.send("GET", addressPath+"/"+ip, "", 200)
		})
		x.p = New(c)
		x.start(6443)
		if !finished {
			t.Error("the repairs are not reported as done")
		}
		x.send("POST", servicesPath, nodePortService("c", 30080), 422)
		x.send("POST", servicesPath, nodePortService("c", 30090), 422)
		x.send("POST", servicesPath, `{"metadata":{"name":"c"},"spec":{"clusterIP":"`+ip+`","ports":[{"port":80}]}}`, 422)

		events := "/apis/events.k8s.io/v1/events?fieldSelector=reason%3DPortNotAllocated"
		if n := x.send("GET", events, "", 200).Get("items.#").Int(); n != 0 {
			t.Errorf("the start has written %d Events", n)
		}
		r := x.p.newPortRepair(x.network(6443))
		x.repairPorts(r, nil)
		if n := x.send("GET", events, "", 200).Get("items.#").Int(); n != 3 {
			t.Errorf("%d Events", n)
		}
		quiet := x.revision()
		if x.repairPorts(r, nil); x.revision() != quiet {
			t.Error("something is written where nothing is to be repaired")
		}
	})
}

// portErrors returns how many node ports were wrong, by kind, since the start of the process.
func portErrors(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "apiserver_nodeport_repair_port_errors_total" {
			for _, m := range f.Metric {
				n[m.Label[0].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	return n
}

// Wrong node ports are counted as in kube-apiserver, by kind.
func TestPortErrorsAreCounted(t *testing.T) {
	before := portErrors(t)
	TestRepairContestedPort(t)
	TestRepairLeakedPorts(t)
	after := portErrors(t)
	for kind, least := range map[string]float64{"duplicate": 1, "repair": 1, "leak": 2, "outOfRange": 1} {
		if n := after[kind] - before[kind]; n < least {
			t.Errorf("%s: %v were counted, want %v", kind, n, least)
		}
	}
}

// Of several Services with a port, one has it. When that one goes, another one gets the port.
func TestRepairContestedPort(t *testing.T) {
	x := newRepairs(t)
	x.send("POST", servicesPath, nodePortService("a", 30080), 201)
	x.forget()
	x.send("POST", servicesPath, nodePortService("b", 30080), 201)
	r := x.p.newPortRepair(x.network(6443))
	x.repairPorts(r, nil)
	x.reportedBy(portRepairer, "PortAlreadyAllocated", "Port 30080 was assigned to multiple services; please recreate service")
	if diff := cmp.Diff(map[int]string{30080: "default/b"}, x.portsOf()); diff != "" {
		t.Fatal(diff)
	}
	x.send("DELETE", servicesPath+"/b", "", 200)
	x.repairPorts(r, []*resources.Event{})
	x.reportedBy(portRepairer, "PortNotAllocated", "Port 30080 is not allocated; repairing")
	if diff := cmp.Diff(map[int]string{30080: "default/a"}, x.portsOf()); diff != "" {
		t.Fatal(diff)
	}
	if r.contested {
		t.Error("the port still counts as that of several Services")
	}
}

// The row of a port that its Service does not have is removed, and a port outside the range is reported.
func TestRepairLeakedPorts(t *testing.T) {
	x := newRepairs(t)
	x.send("POST", servicesPath, nodePortService("a", 30080), 201)
	rows := resources.NewRows(x.store)
	a, err := x.store.Get(t.Context(), resources.Key{Resource: servicesResource, Namespace: "default", Name: "a"}, resources.At{})
	if err != nil {
		t.Fatal(err)
	}
	for port, name := range map[int]string{30100: "none", 30101: "a"} {
		key, row, err := builtin.NodePortRow(port, "default", name)
		if err == nil {
			_, err = rows.CreateFor(t.Context(), a, key, row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := x.p.newPortRepair(x.network(6443))
	x.repairPorts(r, nil)
	if diff := cmp.Diff(map[int]string{30080: "default/a"}, x.portsOf()); diff != "" {
		t.Error(diff)
	}
	x.send("POST", servicesPath, nodePortService("b", 30100), 201)

	r.ports.Base, r.ports.Size = 30090, 20
	x.repairPorts(r, nil)
	x.reportedBy(portRepairer, "PortOutOfRange", "Port 30080 is not within the port range 30090-30109; please recreate service")
}

// racing is a store in which another writer is faster than the first write of a row.
type racing struct {
	resources.Store
	before func()
}

func (s *racing) Commit(ctx context.Context, w ...resources.Write) ([]*resources.Object, error) {
	if slices.ContainsFunc(w, func(w resources.Write) bool { return w.Key.Resource == builtin.NodePortRows }) && s.before != nil {
		before := s.before
		s.before = nil
		before()
	}
	return s.Store.Commit(ctx, w...)
}

// What changes while the ports are repaired is looked at again, and no port is given to a Service that does not have it.
func TestRepairPortsMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(x *repairs)
		want map[int]string
	}{
		"the Service is deleted":      {func(x *repairs) { x.send("DELETE", servicesPath+"/a", "", 200) }, map[int]string{}},
		"the Service changes":         {func(x *repairs) { x.send("PATCH", servicesPath+"/a", `{"metadata":{"labels":{"a":"b"}}}`, 200) }, map[int]string{30080: "default/a"}},
		"another one is given a port": {func(x *repairs) { x.send("POST", servicesPath, nodePortService("b", 30080), http.StatusCreated) }, map[int]string{30080: "default/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newRepairs(t)
			x.send("POST", servicesPath, nodePortService("a", 30080), 201)
			x.forget()
			n := x.network(6443)
			n.Rows = resources.NewRows(&racing{x.store, func() { tc.do(x) }})
			r := x.p.newPortRepair(n)
			x.repairPorts(r, nil)
			for range 2 { // for the events of the change
				x.repairPorts(r, []*resources.Event{})
			}
			if diff := cmp.Diff(tc.want, x.portsOf()); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(name, "another") != r.contested {
				t.Errorf("contested: %t", r.contested)
			}
		})
	}
}
