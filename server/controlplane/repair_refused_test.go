package controlplane

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// An IPAddress that a finalizer keeps is deleted once, with one Event; the repair then waits for its end.
func TestRepairKeptAddresses(t *testing.T) {
	const gateway = `{"resource":"gateways","namespace":"default","name":"g","group":"example.com"}`
	held := func(name, labels string) string {
		return strings.Replace(addressOf(name, gateway, labels), `"metadata":{`, `"metadata":{"finalizers":["example.com/hold"],`, 1)
	}
	x := newRepairs(t)
	still := func() {
		t.Helper()
		quiet := x.revision()
		if again := x.repair(0); again != checkAfter || x.revision() != quiet { // because of the reports, and not of an address
			t.Errorf("again in %v, revision %d after %d", again, x.revision(), quiet)
		}
	}
	x.send("POST", addressPath, held("10.43.1.1", managedLabels), 201)
	x.repair(0)
	if !x.send("GET", addressPath+"/10.43.1.1", "", 200).Get("metadata.deletionTimestamp").Exists() {
		t.Error("what has leaked is not being deleted")
	}
	still()
	x.reported("IPAddressNotAllocated", "IPAddress 10.43.1.1 appears to have been modified, not referencing a Service "+
		"&ParentReference{Group:example.com,Resource:gateways,Namespace:default,Name:g,}: cleaning up")

	// It takes the place of the IPAddress of a Service.
	ip := x.send("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`, 201).Get("spec.clusterIP").Str
	x.send("DELETE", addressPath+"/"+ip, "", 200)
	x.send("POST", addressPath, held(ip, `{}`), 201)
	x.repair(0)
	still()
	if got := x.send("GET", "/apis/events.k8s.io/v1/events?fieldSelector=reason%3DClusterIPNotAllocated", "", 200).Get("items.#").Int(); got != 0 {
		t.Errorf("%d Events say that something was repaired", got)
	}
	x.send("PATCH", addressPath+"/"+ip, `{"metadata":{"finalizers":null}}`, 200)
	x.repair(0)
	if got := x.send("GET", addressPath+"/"+ip, "", 200).Get("spec.parentRef.name").Str; got != "a" {
		t.Errorf("the address is of %s", got)
	}
	x.reported("ClusterIPNotAllocated", "Cluster IP [IPv4]: "+ip+" is not allocated; repairing")
}

// A Service keeps its addresses in the form in which they were sent; IPAddresses have canonical names.
func TestRepairAddressAsSent(t *testing.T) {
	for _, sent := range []string{"fd00:0:0:0::5", "FD00::5"} {
		t.Run(sent, func(t *testing.T) {
			x := newRepairs(t)
			got := x.send("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"ipFamilies":["IPv6"],"clusterIP":"`+sent+`","ports":[{"port":80}]}}`, 201)
			if got.Get("spec.clusterIPs.0").Str != sent {
				t.Fatalf("the Service is %s", got)
			}
			made := x.send("GET", addressPath+"/fd00::5", "", 200)
			x.now = x.now.Add(2 * leakGrace)
			quiet := x.revision()
			if again := x.repair(0); again != 0 || x.revision() != quiet {
				t.Errorf("with nothing to repair: again in %v, revision %d after %d", again, x.revision(), quiet)
			}
			x.send("DELETE", addressPath+"/fd00::5", "", 200)
			x.repair(quiet)
			x.reported("ClusterIPNotAllocated", "Cluster IP [IPv6]: fd00::5 is not allocated; repairing")
			if is := x.send("GET", addressPath+"/fd00::5", "", 200); is.Get("spec").Raw != made.Get("spec").Raw {
				t.Errorf("the IPAddress is %s", is)
			}
		})
	}
}

// refusingStore refuses writes of one name, and counts them.
type refusingStore struct {
	resources.Store
	name  string
	err   error
	count int
}

func (s *refusingStore) Commit(ctx context.Context, w ...resources.Write) ([]*resources.Object, error) {
	if w[0].Key.Name == s.name {
		s.count++
		return nil, s.err
	}
	return s.Store.Commit(ctx, w...)
}

// A failed repair does not stop the repair of other Services, unless the store itself fails, or a start has waited long enough.
func TestRepairOthers(t *testing.T) {
	refused := errors.New("refused")
	for _, tc := range []struct {
		err  error
		late time.Duration // after the time at which a run with an error ends
		code int
	}{{refused, -time.Minute, 200}, {refused, time.Second, 404}, {resources.ErrUnavailable, -time.Minute, 404}, {resources.ErrNotRecorded, -time.Minute, 404}} {
		x := newRepairs(t)
		x.r.until = x.now.Add(-tc.late)
		var ips []string
		for _, name := range []string{"a", "b"} { // their order in the store
			ip := x.send("POST", servicesPath, `{"metadata":{"name":"`+name+`"},"spec":{"ports":[{"port":80}]}}`, 201).Get("spec.clusterIP").Str
			x.send("DELETE", addressPath+"/"+ip, "", 200)
			ips = append(ips, ip)
		}
		store, was := &refusingStore{Store: x.store, name: ips[0], err: tc.err}, x.p.Pipeline
		x.p.Pipeline = resources.NewPipeline(store, resources.PipelineOptions{})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		if _, err := x.r.do(ctx, nil); !errors.Is(err, tc.err) || store.count == 0 {
			t.Errorf("%d writes, and the error is %v", store.count, err)
		}
		stop()
		x.p.Pipeline = was
		x.send("GET", addressPath+"/"+ips[1], "", tc.code)
	}
}

// A start goes on without the repairs that a full disk prevents, and not without those that another attempt may make.
func TestStartWithoutRepairs(t *testing.T) {
	for _, tc := range []struct{ err, want error }{
		{errors.Join(resources.ErrUnavailable, resources.ErrFull), nil},
		{errors.New("refused"), nil},
		{resources.ErrUnavailable, resources.ErrUnavailable},
		{resources.ErrNotRecorded, resources.ErrNotRecorded},
	} {
		x := newRepairs(t)
		ip := x.send("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`, 201).Get("spec.clusterIP").Str
		x.send("DELETE", addressPath+"/"+ip, "", 200)
		store := &refusingStore{Store: x.store, name: ip, err: tc.err}
		x.p.Pipeline = resources.NewPipeline(store, resources.PipelineOptions{})
		if err := x.p.bootstrapServices(t.Context(), x.network(6443)); !errors.Is(err, tc.want) || store.count != 1 {
			t.Errorf("%v: %d writes, and the start ends with %v", tc.err, store.count, err)
		}
	}
}
