package aggregate_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/server/servertest"
)

// patience is how long a test waits for what must come. It is only reached by a test that fails.
const patience = time.Minute

// extension is a server that extends the API with apples.example.com/v1. It answers those alone who have the front proxy's
// certificate, with what they say of the client.
type extension struct {
	*httptest.Server
	bundle []byte // who signed its certificate
	down   atomic.Bool
	// resources is what it says it serves.
	resources atomic.Value
	// verbs are what it says can be done, as JSON.
	verbs atomic.Value
	// orchard is what it keeps.
	orchard orchard
	// documents are its OpenAPI documents, by their paths.
	documents sync.Map
	// event is sent on a watch.
	event chan string
	// left says how the context of a watch ended.
	left chan error
}

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// newExtension lets it listen on loopback, where it is called localhost.
func newExtension(t testing.TB, proxies *x509.CertPool) *extension {
	t.Helper()
	own, err := pki.Open(pki.Options{DataDir: t.TempDir(), Names: []string{"ext.default.svc"}, Logger: servertest.Quiet})
	if err != nil {
		t.Fatal(err)
	}
	e := &extension{event: make(chan string), left: make(chan error, 1)}
	e.resources.Store("apples")
	e.verbs.Store(`["get"]`)
	for _, c := range own.Certificates() {
		e.bundle = append(e.bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(e.serve))
	e.TLS = own.TLSConfig()
	e.TLS.GetConfigForClient = nil
	e.TLS.ClientAuth, e.TLS.ClientCAs = tls.RequireAndVerifyClientCert, proxies
	e.EnableHTTP2 = true
	e.Config.ErrorLog = nil
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

func (e *extension) port() int { return e.Listener.Addr().(*net.TCPAddr).Port }

func (e *extension) serve(w http.ResponseWriter, r *http.Request) {
	if e.down.Load() {
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	switch {
	case r.URL.Path == "/apis" && strings.Contains(r.Header.Get("Accept"), "g=apidiscovery.k8s.io"):
		w.Header().Set("Content-Type", aggregated)
		fmt.Fprintf(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"apples.example.com"},"versions":[`+
			`{"version":"v1","resources":[{"resource":%q,"responseKind":{"group":"","version":"","kind":"Apple"},"scope":"Namespaced","singularResource":"apple","verbs":%s}]}]}]}`, e.resources.Load(), e.verbs.Load())
	case strings.HasSuffix(r.URL.Path, "/elsewhere"):
		http.Redirect(w, r, "https://example.com/", http.StatusFound)
	case e.orchard.serve(w, r):
	case strings.HasPrefix(r.URL.Path, "/openapi/"):
		e.describe(w, r)
	case r.URL.Query().Get("watch") != "":
		e.watch(w, r)
	case r.Header.Get("Upgrade") != "":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-User: %s\r\n\r\n", r.Header.Get("X-Remote-User"))
		_, _ = io.Copy(conn, conn) // until the client leaves
	default:
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"method":%q,"uri":%q,"user":%q,"uid":%q,"groups":%q,"extra":%q,"body":%q,"proxy":%q,"authorization":%q}`, r.Method, r.URL.RequestURI(),
			r.Header.Get("X-Remote-User"), r.Header.Get("X-Remote-Uid"), strings.Join(r.Header["X-Remote-Group"], ","), r.Header.Get("X-Remote-Extra-Team"), body,
			r.TLS.VerifiedChains[0][0].Subject.CommonName, r.Header.Get("Authorization"))
	}
}

func (e *extension) watch(w http.ResponseWriter, r *http.Request) {
	for {
		select {
		case event := <-e.event:
			fmt.Fprintln(w, event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			e.left <- r.Context().Err()
			return
		}
	}
}

// fixture is a server with an APIService for an extension, and what makes its status.
type fixture struct {
	testing.TB
	server  *server.Server
	store   resources.View
	address string
	stop    context.CancelFunc // of Serve
	// stopControllers ends what connects to the extension by itself.
	stopControllers func()
	registry        *resources.Registry
	// proxy is the certificate of the front proxy.
	proxy func() *tls.Certificate
	ext   *extension
}

// direct returns a client of the extension that is believed to be the front proxy.
func (f *fixture) direct() *http.Client {
	return &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*f.proxy()}}}}
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	own, err := pki.Open(pki.Options{DataDir: t.TempDir(), Names: []string{"localhost"}, Logger: servertest.Quiet})
	if err != nil {
		t.Fatal(err)
	}
	proxies := x509.NewCertPool()
	for _, c := range own.ProxyAuthorities() {
		proxies.AddCert(c)
	}
	f := &fixture{TB: t, proxy: own.ProxyCertificate, ext: newExtension(t, proxies)}
	var aggregator *aggregate.Aggregator
	s, c := servertest.New(t, func(c *server.Config) {
		aggregator = aggregate.New(aggregate.Config{Registry: c.Registry, Store: c.Store, Logger: c.Logger, Certificate: own.ProxyCertificate, UID: true})
		c.Aggregator = aggregator
	})
	f.server, f.store, f.registry = s, c.Store, c.Registry
	plane := controlplane.New(controlplane.Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger, Front: s})
	if err := plane.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := plane.BootstrapServices(t.Context(), controlplane.Network{ServiceRanges: builtin.DefaultServiceNetwork().Ranges, Port: 6443}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = l.Addr().String()
	stopDiscovery := run(t, aggregator.Run)
	stopChecks := run(t, func(ctx context.Context) {
		_ = controllers.Run(ctx, controllers.Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger,
			Enabled: []string{controllers.Namespace}, Prober: aggregator, Unavailable: aggregator.CountUnavailable, Elsewhere: aggregator}) // no election, no error
	})
	f.stopControllers = func() {
		stopDiscovery()
		stopChecks()
	}
	f.stop = run(t, func(ctx context.Context) {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	return f
}

// run lets f run until the returned function is called, or the test ends.
func run(t testing.TB, f func(context.Context)) context.CancelFunc {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	stop := func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// send sends a request as "known", and returns the answer.
func (f *fixture) send(method, path, body string, headers ...string) (int, string) {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, "http://"+f.address+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Authorization", "known")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		f.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

func (f *fixture) must(method, path, body string, headers ...string) string {
	f.Helper()
	code, answer := f.send(method, path, body, headers...)
	if code >= 300 {
		f.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return answer
}

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"

// register makes the APIService of apples, and a Service that leads to the extension.
func (f *fixture) register() {
	f.Helper()
	f.service()
	f.apiService()
}

func (f *fixture) service() {
	f.Helper()
	f.must("POST", "/api/v1/namespaces/default/services", `{"metadata":{"name":"ext"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
}

func (f *fixture) apiService() {
	f.Helper()
	f.must("POST", apiServices, fmt.Sprintf(`{"metadata":{"name":"v1.apples.example.com"},"spec":{"group":"apples.example.com","version":"v1","groupPriorityMinimum":2000,
		"versionPriority":10,"caBundle":%q,"service":{"namespace":"default","name":"ext","port":%d}}}`, base64.StdEncoding.EncodeToString(f.ext.bundle), f.ext.port()))
}

// condition waits until the status of the APIService has a reason, and returns the condition.
func (f *fixture) condition(reason string) gjson.Result {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for {
		now, err := f.store.Snapshot(ctx, "apiservices.apiregistration.k8s.io", resources.At{Match: resources.MostRecent})
		if err != nil {
			f.Fatal(err)
		}
		_, answer := f.send("GET", apiServices+"/v1.apples.example.com", "")
		if c := gjson.Get(answer, "status.conditions.0"); c.Get("reason").Str == reason {
			return c
		}
		w, err := f.store.Watch(ctx, resources.WatchOptions{Resource: "apiservices.apiregistration.k8s.io", After: now.Revision()})
		if err != nil {
			f.Fatal(err)
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			f.Fatalf("never %s: %s", reason, answer)
		}
		w.Close()
	}
}

// discovered waits until what is found in aggregated discovery satisfies a condition.
func (f *fixture) discovered(what, path string, ok func(gjson.Result) bool) {
	f.Helper()
	deadline := time.After(patience)
	for {
		_, answer := f.send("GET", "/apis", "", "Accept", aggregated)
		found := gjson.Get(answer, path)
		if ok(found) {
			return
		}
		select {
		case <-deadline:
			f.Fatalf("never %s: %s", what, found)
		case <-time.After(5 * time.Millisecond): // nothing tells of it but the answer
		}
	}
}

const apples = "/apis/apples.example.com/v1"

// A request goes to the server of the APIService by the identity of the client, whoever the client says to be, and from the
// moment that its status says so.
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

// Events of a watch come when they are sent, and a client that leaves ends the watch. At a shutdown it ends, too.
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

// A connection that changes its protocol is joined to the other server's, which is told who it is.
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

// The status says why a server is not available, by upstream's reasons, and follows what changes; requests are refused.
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

// Discovery has what other servers serve, at its place; of one that is down, what it served, as Stale.
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

// Where requests go is what the Service says, by upstream's rules: its ClusterIP, what its name stands for, or an endpoint of it.
func TestResolve(t *testing.T) {
	f := newFixture(t)
	f.apiService()
	const services, slices = "/api/v1/namespaces/default/services", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	toEndpoints := aggregate.New(aggregate.Config{Registry: f.registry, Store: f.store, Logger: servertest.Quiet, RouteToEndpoints: true})
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
	// Nobody is to be connected to: no port of the Service is that of the APIService, until nothing is ready there.
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
	f.stopControllers() // who would ask what they find
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
