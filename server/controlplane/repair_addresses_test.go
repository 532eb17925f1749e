package controlplane

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
)

// repairs is a server that repairs addresses when the test calls it, at the time that the test sets.
type repairs struct {
	*testing.T
	s     *server.Server
	p     *Plane
	store resources.Store
	r     *addressRepair
	now   time.Time
	// ranges are those of the default ServiceCIDR.
	ranges []net.IPNet
	// looks counts the rounds of the last repair.
	looks int
}

func newRepairs(t *testing.T) *repairs {
	t.Helper()
	x := prepareRepairs(t)
	x.start(6443)
	return x
}

// prepareRepairs is newRepairs with a server that has not started yet.
func prepareRepairs(t *testing.T, change ...func(*server.Config)) *repairs {
	t.Helper()
	_, more, err := net.ParseCIDR("fd00::/64")
	if err != nil {
		t.Fatal(err)
	}
	ranges := append(builtin.DefaultServiceNetwork().Ranges, *more)
	s, c := servertest.New(t, func(c *server.Config) {
		c.Registry.SetGroups(builtin.Parts{Services: builtin.ServiceNetwork{Ranges: ranges}}.Groups())
		c.Authenticator = func(*http.Request) (user.Info, bool, error) { return &user.DefaultInfo{Name: "u"}, true, nil }
		for _, f := range change {
			f(c)
		}
	})
	p := New(Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger, Front: s})
	x := &repairs{T: t, s: s, p: p, store: c.Store.(resources.Store), r: p.newAddressRepair(), ranges: ranges, now: time.Now()}
	x.r.now = func() time.Time { return x.now }
	x.r.report.now = x.r.now
	return x
}

// start runs the start of a server.
func (x *repairs) start(port int) {
	x.Helper()
	if err := x.p.Bootstrap(x.Context()); err != nil {
		x.Fatal(err)
	}
	if err := x.p.BootstrapServices(x.Context(), x.network(port)); err != nil {
		x.Fatal(err)
	}
}

func (x *repairs) network(port int) Network {
	return Network{ServiceRanges: x.ranges, NodePorts: builtin.DefaultServiceNetwork().NodePorts, Address: net.IPv4(192, 0, 2, 1), Port: port,
		Rows: resources.NewRows(x.store)}
}

func (x *repairs) send(method, path, body string, code int) gjson.Result {
	x.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	if x.s.Handler().ServeHTTP(w, r); w.Code != code {
		x.Fatalf("%s %s: %s", method, path, w.Body)
	}
	return gjson.Parse(w.Body.String())
}

// repair handles the events since a revision, or all objects when that is 0, until nothing is due at once. It returns
// when to run again.
func (x *repairs) repair(since int64) time.Duration {
	x.Helper()
	var events []*resources.Event
	if since > 0 {
		for _, key := range x.p.keepAddresses().follow {
			w, err := x.store.Watch(x.Context(), resources.WatchOptions{Resource: key.Resource, After: since})
			if err != nil {
				x.Fatal(err)
			}
			some, _, err := w.Next(x.Context(), 100)
			if err != nil {
				x.Fatal(err)
			}
			w.Close()
			events = append(events, some...)
		}
		if len(events) == 0 {
			return 0
		}
	}
	for x.looks = 1; ; x.looks++ {
		again, err := x.r.report.after(x.r.do)(x.Context(), events)
		if err != nil {
			x.Fatal(err)
		}
		if again != time.Nanosecond {
			return again
		}
		events = nil
	}
}

func (x *repairs) revision() int64 {
	x.Helper()
	now, err := x.store.Snapshot(x.Context(), servicesResource, resources.At{})
	if err != nil {
		x.Fatal(err)
	}
	return now.Revision()
}

// reported fails the test unless there is one Event with a reason and a message.
func (x *repairs) reported(reason, message string) {
	x.Helper()
	x.reportedBy(repairer, reason, message)
}

func (x *repairs) reportedBy(controller, reason, message string) {
	x.Helper()
	found := x.send("GET", "/apis/events.k8s.io/v1/events?fieldSelector=reason%3D"+reason, "", 200).Get("items").Array()
	if len(found) != 1 || found[0].Get("note").Str != message || found[0].Get("reportingController").Str != controller ||
		found[0].Get("metadata.managedFields.0.apiVersion").Str != "events.k8s.io/v1" {
		x.Errorf("the events are %v, want one with %s", found, message)
	}
}

const (
	addressPath  = "/apis/networking.k8s.io/v1/ipaddresses"
	servicesPath = "/api/v1/namespaces/default/services"
)

func addressOf(name, parent, labels string) string {
	return `{"metadata":{"name":"` + name + `","labels":` + labels + `},"spec":{"parentRef":` + parent + `}}`
}

// Changes to the IPAddress of a Service are reverted, after an event as well as by a check of all objects.
func TestRepairServiceAddresses(t *testing.T) {
	for how, all := range map[string]bool{"by events": false, "by looking": true} {
		t.Run(how, func(t *testing.T) {
			x := newRepairs(t)
			ip := x.send("POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`, 201).Get("spec.clusterIP").Str
			x.repair(0)
			made := x.send("GET", addressPath+"/"+ip, "", 200)
			quiet := x.revision()
			if again := x.repair(0); again != 0 || x.revision() != quiet {
				t.Errorf("with nothing to repair: again in %v, revision %d after %d", again, x.revision(), quiet)
			}
			since := func() int64 {
				if all {
					return 0
				}
				return quiet
			}
			expect := func() {
				t.Helper()
				x.repair(since())
				is := x.send("GET", addressPath+"/"+ip, "", 200)
				if is.Get("metadata.uid").Str == made.Get("metadata.uid").Str {
					t.Error("the IPAddress is the one that was made first")
				}
				for _, path := range []string{"spec", "metadata.labels", "metadata.managedFields.0.fieldsV1", "metadata.managedFields.0.manager"} {
					if got, want := is.Get(path).Raw, made.Get(path).Raw; got != want {
						t.Errorf("%s is %s, want %s", path, got, want)
					}
				}
				quiet = x.revision()
			}
			x.send("DELETE", addressPath+"/"+ip, "", 200)
			expect()
			x.reported("ClusterIPNotAllocated", "Cluster IP [IPv4]: "+ip+" is not allocated; repairing")
			made = x.send("GET", addressPath+"/"+ip, "", 200)
			x.send("PATCH", addressPath+"/"+ip, `{"metadata":{"labels":{"ipaddress.kubernetes.io/ip-family":"IPv6"}}}`, 200)
			expectLabels := made
			x.repair(since())
			if got := x.send("GET", addressPath+"/"+ip, "", 200).Get("metadata.labels").Raw; got != expectLabels.Get("metadata.labels").Raw {
				t.Errorf("labels are %s", got)
			}
			quiet = x.revision()
			// An IPAddress of another Service takes its place.
			x.send("DELETE", addressPath+"/"+ip, "", 200)
			x.send("POST", addressPath, addressOf(ip, `{"group":"example.com","resource":"gateways","name":"g"}`, `{}`), 201)
			x.send("PATCH", servicesPath+"/a", `{"metadata":{"labels":{"seen":"yes"}}}`, 200)
			x.repair(since())
			if got := x.send("GET", addressPath+"/"+ip, "", 200).Get("spec.parentRef.name").Str; got != "a" {
				t.Errorf("the address is of %s", got)
			}
		})
	}
}

const managedLabels = `{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io","ipaddress.kubernetes.io/ip-family":"IPv4"}`

// An IPAddress that was created for a Service which does not have it is removed, after the time that a request may take.
func TestRepairLeakedAddresses(t *testing.T) {
	x := newRepairs(t)
	x.repair(0)
	before := x.revision()
	service := func(name string) string { return `{"resource":"services","namespace":"default","name":"` + name + `"}` }
	x.send("POST", addressPath, addressOf("10.43.1.1", service("none"), managedLabels), 201)
	x.send("POST", addressPath, addressOf("10.43.1.2", service("none"), `{}`), 201) // a user's own
	x.send("POST", addressPath, addressOf("10.43.1.3", `{"resource":"gateways","namespace":"default","name":"g","group":"example.com"}`, managedLabels), 201)
	x.now = time.Now() // they may have been created a second after it was set
	if again := x.repair(before); again <= 0 || again > leakGrace {
		t.Errorf("again in %v", again)
	}
	x.send("GET", addressPath+"/10.43.1.1", "", 200)
	x.send("GET", addressPath+"/10.43.1.3", "", 404)
	x.reported("IPAddressNotAllocated", "IPAddress 10.43.1.3 appears to have been modified, not referencing a Service "+
		"&ParentReference{Group:example.com,Resource:gateways,Namespace:default,Name:g,}: cleaning up")
	x.send("DELETE", "/api/v1/namespaces/default/events", "", 200)
	x.now = x.now.Add(leakGrace + time.Second)
	if again := x.repair(0); again != checkAfter { // because of the reports, and not of an address
		t.Errorf("again in %v", again)
	}
	x.send("GET", addressPath+"/10.43.1.1", "", 404)
	x.send("GET", addressPath+"/10.43.1.2", "", 200)
	x.reported("IPAddressNotAllocated", "IPAddress: 10.43.1.1 for Service default/none appears to have leaked: cleaning up")

	x.send("POST", servicesPath, `{"metadata":{"name":"b"},"spec":{"ports":[{"port":80}]}}`, 201)
	x.send("POST", addressPath, addressOf("10.43.1.4", service("b"), managedLabels), 201)
	x.now = time.Now().Add(referenceGrace + time.Second)
	x.repair(0)
	x.send("GET", addressPath+"/10.43.1.4", "", 404)
	x.reported("IPAddressWrongReference", "IPAddress: 10.43.1.4 for Service default/b has a wrong reference; cleaning up")
}
