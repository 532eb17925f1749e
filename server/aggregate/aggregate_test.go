package aggregate_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/discovery"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/server/servertest"
)

// A request is forwarded to the server of the APIService with the identity of the client, whatever identity headers the
// client sends, as soon as the status says that the server is available.
func TestProxy(t *testing.T) {
	f := newFixture(t)
	if code, _ := f.send("GET", apples, ""); code != http.StatusNotFound {
		t.Errorf("without an APIService: %d", code)
	}
	f.service()
	f.apiService()
	c := f.condition("Passed")
	if c.Get("status").Str != "True" || c.Get("message").Str != "all checks passed" {
		t.Error(c)
	}
	code, answer := f.send("POST", apples+"/namespaces/n/apples?b=2&a=%2F", "an apple", "X-Remote-User", "forged", "X-Remote-Group", "system:masters",
		"Impersonate-User", "jane", "Impersonate-Group", "gardeners", "Impersonate-Uid", "7", "Impersonate-Extra-Team", "fruit")
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	for field, want := range map[string]string{"method": "POST", "uri": apples + "/namespaces/n/apples?a=%2F&b=2", "user": "jane", "uid": "7",
		"groups": "gardeners,system:authenticated", "extra": "fruit", "body": "an apple", "proxy": pki.ProxyName, "authorization": ""} {
		if got := gjson.Get(answer, field).Str; got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if code, answer := f.send("GET", apples+"/elsewhere", ""); code != http.StatusBadGateway || answer != "the backend attempted to redirect this request, which is not permitted" {
		t.Errorf("a redirect is passed on: %d %s", code, answer)
	}
	f.must("DELETE", apiServices+"/v1.apples.example.com", "")
	if code, _ := f.send("GET", apples+"/apples", ""); code != http.StatusNotFound {
		t.Errorf("after the APIService: %d", code)
	}
}

// Events of a watch are forwarded when they are sent, and a client that leaves ends the watch. A shutdown ends it, too.
func TestProxyWatch(t *testing.T) {
	for how, leave := range map[string]func(*fixture, io.Closer){
		"client":   func(_ *fixture, body io.Closer) { body.Close() },
		"shutdown": func(f *fixture, _ io.Closer) { f.stop() },
	} {
		t.Run(how, func(t *testing.T) {
			f := newFixture(t)
			f.register()
			f.condition("Passed")
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.address+apples+"/apples?watch=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "known")
			go func() { f.ext.event <- "first" }()
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			lines := bufio.NewReader(answer.Body)
			for _, want := range []string{"first", "second"} {
				if line, err := lines.ReadString('\n'); line != want+"\n" {
					t.Fatalf("%q, %v", line, err)
				}
				if want == "first" {
					f.ext.event <- "second"
				}
			}
			leave(f, answer.Body)
			select {
			case err := <-f.ext.left:
				if err == nil {
					t.Error("nothing has ended it")
				}
			case <-time.After(patience):
				t.Error("the watch goes on")
			}
		})
	}
}

// An upgraded connection is joined to the other server's, which gets the identity of the client.
func TestProxyUpgrade(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s/apples/a/exec HTTP/1.1\r\nHost: h\r\nAuthorization: known\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", apples)
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("X-User") != "known" {
		t.Fatalf("%v, %v", answer, err)
	}
	fmt.Fprintln(conn, "hello")
	if line, err := in.ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// The status says why a server is unavailable, with upstream's reasons, and follows changes; requests are refused meanwhile.
func TestAvailability(t *testing.T) {
	f := newFixture(t)
	f.apiService()
	refused := func(reason, message string) {
		t.Helper()
		if c := f.condition(reason); c.Get("status").Str != "False" || !strings.HasPrefix(c.Get("message").Str, message) {
			t.Error(c)
		}
		if code, answer := f.send("GET", apples, ""); code != http.StatusServiceUnavailable || answer != "service unavailable\n" {
			t.Errorf("%d %s", code, answer)
		}
	}
	refused("ServiceNotFound", `service/ext in "default" is not present`)
	const services, slices = "/api/v1/namespaces/default/services", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	f.must("POST", services, `{"metadata":{"name":"ext"},"spec":{"ports":[{"name":"https","port":1}]}}`)
	refused("ServicePortError", fmt.Sprintf(`service/ext in "default" is not listening on port %d`, f.ext.port()))
	f.must("PATCH", services+"/ext", fmt.Sprintf(`{"spec":{"ports":[{"name":"https","port":%d}]}}`, f.ext.port()), "Content-Type", "application/merge-patch+json")
	refused("EndpointsNotFound", `cannot find endpointslices for service/ext in "default"`)
	f.must("POST", slices, `{"metadata":{"name":"ext-1","labels":{"kubernetes.io/service-name":"ext"}},"addressType":"IPv4","ports":[{"name":"other","port":1}],
		"endpoints":[{"addresses":["192.0.2.1"]}]}`)
	refused("MissingEndpoints", `endpointslices for service/ext in "default" have no addresses with port name "https"`)
	f.must("DELETE", services+"/ext", "")
	f.ext.down.Store(true)
	f.service()
	refused("FailedDiscoveryCheck", fmt.Sprintf("failing or missing response from https://localhost:%d%s: bad status from https://localhost:%d%s: 500",
		f.ext.port(), apples, f.ext.port(), apples))
	f.ext.down.Store(false)
	f.condition("Passed")
	f.must("PATCH", apiServices+"/v1.apples.example.com", `{"spec":{"caBundle":null}}`, "Content-Type", "application/merge-patch+json")
	refused("FailedDiscoveryCheck", "failing or missing response from")
	f.must("PATCH", apiServices+"/v1.apples.example.com", `{"spec":{"insecureSkipTLSVerify":true}}`, "Content-Type", "application/merge-patch+json")
	f.condition("Passed")
	f.must("PATCH", apiServices+"/v1.apples.example.com/status", `{"status":{"conditions":null}}`, "Content-Type", "application/merge-patch+json")
	f.condition("Passed")
}

// Discovery contains the versions of other servers in their places; for a server that is down, the last ones, marked as Stale.
func TestDiscovery(t *testing.T) {
	f := newFixture(t)
	f.register()
	const ours = `items.#(metadata.name=="apples.example.com").versions.0`
	is := func(freshness, resource string) func(gjson.Result) bool {
		return func(v gjson.Result) bool {
			return v.Get("version").Str == "v1" && v.Get("freshness").Str == freshness && v.Get("resources.0.resource").Str == resource
		}
	}
	f.discovered("there", ours, is("Current", "apples"))
	group := gjson.Parse(f.must("GET", "/apis/apples.example.com", ""))
	if group.Get("kind").Str != "APIGroup" || group.Get("preferredVersion.groupVersion").Str != "apples.example.com/v1" || group.Get("versions.#").Int() != 1 {
		t.Error(group)
	}
	names := gjson.Get(f.must("GET", "/apis", ""), "groups.#.name").String()
	if !strings.Contains(names, `"apples.example.com"`) || !strings.HasSuffix(names, `"apples.example.com"]`) {
		t.Errorf("the groups are %s", names)
	}
	f.condition("Passed")
	f.ext.resources.Store("pears")
	f.must("PATCH", apiServices+"/v1.apples.example.com", `{"spec":{"groupPriorityMinimum":19999}}`, "Content-Type", "application/merge-patch+json")
	f.discovered("other", ours, is("Current", "pears"))
	names = gjson.Get(f.must("GET", "/apis", ""), "groups.#.name").String()
	if !strings.HasPrefix(names, `["apiregistration.k8s.io","apples.example.com",`) {
		t.Errorf("the groups are %s", names)
	}
	f.ext.down.Store(true)
	f.must("PATCH", apiServices+"/v1.apples.example.com", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
	f.discovered("stale", ours, is("Stale", "pears"))
	f.must("DELETE", apiServices+"/v1.apples.example.com", "")
	f.discovered("gone", ours, func(v gjson.Result) bool { return !v.Exists() })
	if code, _ := f.send("GET", "/apis/apples.example.com", ""); code != http.StatusNotFound {
		t.Error(code)
	}
}

// The Service determines where requests go, by upstream's rules: its ClusterIP, the target of its name, or one of its endpoints.
func TestResolve(t *testing.T) {
	f := newFixture(t)
	f.apiService()
	const services, slices = "/api/v1/namespaces/default/services", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	toEndpoints := aggregate.New(aggregate.Config{Registry: f.registry, Store: f.store, Logger: servertest.Quiet, ServiceRouting: behind.ToEndpoints})
	toCluster := aggregate.New(aggregate.Config{Registry: f.registry, Store: f.store, Logger: servertest.Quiet})
	check := func(a *aggregate.Aggregator, want string) {
		t.Helper()
		got, err := a.Resolve(t.Context(), "apples.example.com", "v1")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, a := range []*aggregate.Aggregator{toEndpoints, toCluster} {
		check(a, `service "ext" not found`)
	}
	// No address is right at first: the Service does not have the port of the APIService, and then no endpoint is ready.
	ip := gjson.Get(f.must("POST", services, `{"metadata":{"name":"ext"},"spec":{"ports":[{"name":"https","port":1}]}}`), "spec.clusterIP").Str
	missing := fmt.Sprintf(`no service port %d found for service "ext"`, f.ext.port())
	for _, a := range []*aggregate.Aggregator{toEndpoints, toCluster} {
		check(a, missing)
	}
	const slice = `{"metadata":{"name":"%s","labels":{"kubernetes.io/service-name":"%s"}},"addressType":"IPv4","ports":[{"name":"%s","port":8443}],
		"endpoints":[{"addresses":["192.0.2.1"],"conditions":{"ready":%v}}]}`
	f.must("POST", slices, fmt.Sprintf(slice, "a", "ext", "https", false))
	f.must("POST", slices, fmt.Sprintf(slice, "b", "ext", "other", true))
	f.must("POST", slices, fmt.Sprintf(slice, "c", "another", "https", true))
	f.stopControllers() // they would probe the addresses
	f.must("PATCH", services+"/ext", fmt.Sprintf(`{"spec":{"ports":[{"name":"https","port":%d}]}}`, f.ext.port()), "Content-Type", "application/merge-patch+json")
	check(toCluster, fmt.Sprintf("https://%s:%d", ip, f.ext.port()))
	check(toEndpoints, `no endpoints available for service "ext"`)
	f.must("PATCH", slices+"/a", `{"endpoints":[{"addresses":["192.0.2.2"],"conditions":{"ready":true}}]}`, "Content-Type", "application/merge-patch+json")
	check(toEndpoints, "https://192.0.2.2:8443")
	f.must("DELETE", services+"/ext", "")
	f.service()
	check(toCluster, fmt.Sprintf("https://localhost:%d", f.ext.port()))
	check(toEndpoints, `unsupported service type "ExternalName"`)
}

// Requests are forwarded to a ready endpoint of a Service whose address leads nowhere.
func TestProxyToEndpoints(t *testing.T) {
	f := newFixture(t)
	f.must("POST", "/api/v1/namespaces/default/services", fmt.Sprintf(`{"metadata":{"name":"ext"},"spec":{"clusterIP":"None","ports":[{"port":%d}]}}`, f.ext.port()))
	slices, _ := f.registry.Catalog().Type(behind.SlicesResource)
	port := int32(f.ext.port())
	draft, err := slices.NewDraft(t.Context(), &discovery.EndpointSlice{ // the API refuses loopback addresses
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "ext", Labels: map[string]string{discoveryv1.LabelServiceName: "ext"}},
		AddressType: discovery.AddressTypeIPv4, Ports: []discovery.EndpointPort{{Name: new(string), Port: &port}},
		Endpoints: []discovery.Endpoint{{Addresses: []string{"127.0.0.1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.(resources.Store).Commit(t.Context(), resources.Write{Op: resources.Create, Key: slices.KeyOf("default", "ext"), Draft: draft}); err != nil {
		t.Fatal(err)
	}
	f.apiService()
	f.condition("Passed")
	if code, answer := f.send("GET", apples+"/namespaces/default/apples", ""); code != http.StatusCreated || gjson.Get(answer, "user").Str != "known" {
		t.Errorf("%d %s", code, answer)
	}
}
