package aggregate_test

import (
	"compress/gzip"
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
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/server/servertest"
)

// patience is how long a test waits for an expected result. Only a failing test waits that long.
const patience = 2 * time.Minute

// extension is an extension API server for apples.example.com/v1. It answers only clients with the front proxy's
// certificate, with the identity in their headers.
type extension struct {
	*httptest.Server
	bundle []byte // the authorities of its certificate
	down   atomic.Bool
	// resources is its discovery.
	resources atomic.Value
	// verbs are the verbs in its discovery, as JSON.
	verbs atomic.Value
	// orchard has its objects.
	orchard orchard
	// documents are its OpenAPI documents, by their paths.
	documents sync.Map
	// event is sent on a watch.
	event chan string
	// certificate replaces its own, if it is set.
	certificate atomic.Pointer[tls.Certificate]
	// before is called with each request, if it is set.
	before atomic.Pointer[func(*http.Request)]
	// left has the reason why the context of a watch ended.
	left chan error
}

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// newExtension starts an extension on loopback, with the name localhost.
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
	usual := e.TLS.GetCertificate
	e.TLS.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := e.certificate.Load(); c != nil {
			return c, nil
		}
		return usual(hello)
	}
	e.TLS.ClientAuth, e.TLS.ClientCAs = tls.RequireAndVerifyClientCert, proxies
	e.EnableHTTP2 = true
	e.Config.ErrorLog = nil
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

func (e *extension) port() int { return e.Listener.Addr().(*net.TCPAddr).Port }

func (e *extension) serve(w http.ResponseWriter, r *http.Request) {
	if f := e.before.Load(); f != nil {
		(*f)(r)
	}
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
	case strings.HasSuffix(r.URL.Path, "/endless"):
		for part := make([]byte, 64<<10); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	case strings.HasSuffix(r.URL.Path, "/encoded"):
		asked := strings.Join(r.Header["Accept-Encoding"], ",")
		w.Header().Set("Asked", asked)
		if strings.Contains(asked, "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			fmt.Fprint(z, "an apple")
			return
		}
		fmt.Fprint(w, "an apple")
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
		fmt.Fprintf(w, `{"method":%q,"uri":%q,"user":%q,"uid":%q,"groups":%q,"extra":%q,"body":%q,"proxy":%q,"authorization":%q,"protocol":%q}`, r.Method, r.URL.RequestURI(),
			r.Header.Get("X-Remote-User"), r.Header.Get("X-Remote-Uid"), strings.Join(r.Header["X-Remote-Group"], ","), r.Header.Get("X-Remote-Extra-Team"), body,
			r.TLS.VerifiedChains[0][0].Subject.CommonName, r.Header.Get("Authorization"), r.Proto)
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

// fixture is a server with an APIService for an extension, and the controller that maintains its status.
type fixture struct {
	testing.TB
	server  *server.Server
	store   resources.View
	address string
	stop    context.CancelFunc // of Serve
	// stopControllers ends the background requests to the extension.
	stopControllers func()
	registry        *resources.Registry
	aggregator      *aggregate.Aggregator
	// proxy returns the certificate of the front proxy.
	proxy func() *tls.Certificate
	ext   *extension
}

// direct returns a client of the extension that it trusts as the front proxy.
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
		aggregator = aggregate.New(aggregate.Config{Registry: c.Registry, Store: c.Store, Logger: c.Logger, Certificate: own.ProxyCertificate, UID: true,
			ServiceRouting: behind.ToReady})
		c.Aggregator = aggregator
	})
	f.server, f.store, f.registry, f.aggregator = s, c.Store, c.Registry, aggregator
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

// run runs f until the returned function is called, or the test ends.
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

// send sends a request as the user "known", and returns the answer.
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

// register creates the APIService of apples, and a Service that leads to the extension.
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
	return f.conditionOf("v1.apples.example.com", reason)
}

// conditionOf is condition for an APIService by its name.
func (f *fixture) conditionOf(name, reason string) gjson.Result {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for {
		now, err := f.store.Snapshot(ctx, "apiservices.apiregistration.k8s.io", resources.At{Match: resources.MostRecent})
		if err != nil {
			f.Fatal(err)
		}
		_, answer := f.send("GET", apiServices+"/"+name, "")
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

// discovered waits until a value in aggregated discovery satisfies a condition.
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
		case <-time.After(5 * time.Millisecond): // no event reports it
		}
	}
}

const apples = "/apis/apples.example.com/v1"
