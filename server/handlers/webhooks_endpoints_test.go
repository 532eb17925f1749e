package handlers_test

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/pkg/apis/discovery"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/server"
)

// endpoint is an endpoint of a Service.
type endpoint struct {
	*httptest.Server
	// accepted and served count its connections and requests.
	accepted, served atomic.Int64
}

// certificateFor returns a certificate for a name, and its authority as base64.
func certificateFor(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	bundle, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(bundle, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair, base64.StdEncoding.EncodeToString(bundle)
}

// endpoint starts an endpoint of the Service test/name, whose port has no name, and stores an EndpointSlice for it. The API refuses loopback
// addresses.
func (a *api) endpoint(service, slice string, pair tls.Certificate, h http.Handler) *endpoint {
	a.Helper()
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.served.Add(1)
		h.ServeHTTP(w, r)
	}))
	e.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	e.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			e.accepted.Add(1)
		}
	}
	e.StartTLS()
	a.Cleanup(e.Close)
	t, _ := a.registry.Catalog().Type(behind.SlicesResource)
	port := int32(e.Listener.Addr().(*net.TCPAddr).Port)
	draft, err := t.NewDraft(a.Context(), &discovery.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "test", Name: slice, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discovery.AddressTypeIPv4, Ports: []discovery.EndpointPort{{Name: new(string), Port: &port}},
		Endpoints: []discovery.Endpoint{{Addresses: []string{"127.0.0.1"}}}})
	if err != nil {
		a.Fatal(err)
	}
	if _, err := a.store.Commit(a.Context(), resources.Write{Op: resources.Create, Key: t.KeyOf("test", slice), Draft: draft}); err != nil {
		a.Fatal(err)
	}
	return e
}

func newAPIToReady(t *testing.T) *api {
	return newAPIWith(t, nil, func(c *server.Config) {
		c.ServiceRouting, c.Definitions.(*custom.Definitions).ServiceRouting = behind.ToReady, behind.ToReady
	})
}

const headless = `{"metadata":{"name":"hook"},"spec":{"clusterIP":"None","ports":[{"port":443}]}}`

// An admission webhook behind a Service is called at its ready endpoints, and connections are kept. The endpoint is chosen for each call: one that
// has left gets none, although there are connections to it. Without an endpoint, the error says so.
func TestWebhookAtEndpoints(t *testing.T) {
	a, v := newAPIToReady(t), newReviewer(t)
	pair, bundle := certificateFor(t, "hook.test.svc")
	one, two := a.endpoint("hook", "one", pair, v), a.endpoint("hook", "two", pair, v)
	hook := strings.NewReplacer(fmt.Sprintf(`"url":%q`, v.URL+"/validate"), `"service":{"namespace":"test","name":"hook","path":"/validate"}`, v.bundle(), bundle).
		Replace(v.webhook("/validate", ruleFor("", "v1", "configmaps"), ""))
	a.run(exchange{do: "POST /api/v1/namespaces/test/services", body: headless, code: 201},
		exchange{do: "POST " + validatingConfigurations, body: webhooks("v", hook), code: 201})
	const many = 30
	write := func(name string) {
		t.Helper()
		for i := range many {
			a.run(exchange{do: "POST /api/v1/namespaces/test/configmaps", body: fmt.Sprintf(`{"metadata":{"name":"%s-%d"}}`, name, i), code: 201})
		}
		if n := len(v.take()); n != many {
			t.Errorf("%d calls for %d writes", n, many)
		}
	}
	write("first")
	if n := one.accepted.Load() + two.accepted.Load(); n >= many {
		t.Errorf("%d connections for %d calls", n, many)
	}
	const slices = "/apis/discovery.k8s.io/v1/namespaces/test/endpointslices"
	a.run(exchange{do: "DELETE " + slices + "/one", code: 200})
	before, served := one.served.Load(), two.served.Load()
	write("second")
	if n := one.served.Load() - before; n > 0 {
		t.Errorf("%d calls of the endpoint that left", n)
	}
	if n := two.served.Load() - served; n != many {
		t.Errorf("%d calls of the other endpoint, want %d", n, many)
	}
	a.run(exchange{do: "DELETE " + slices + "/two", code: 200},
		exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"none"}}`, code: 500, says: says{"message": `Internal error occurred: ` +
			`failed calling webhook "validate.example.com": failed to call webhook: Post "https://hook.test.svc:443/validate?timeout=10s": no endpoints available for service "hook"`}})
}

// A conversion webhook behind a Service is called at a ready endpoint.
func TestConversionAtEndpoints(t *testing.T) {
	a, hook := newAPIToReady(t), newConverter(t)
	pair, bundle := certificateFor(t, "hook.test.svc")
	a.endpoint("hook", "one", pair, hook.Config.Handler)
	definition := strings.NewReplacer(fmt.Sprintf(`"url":%q`, hook.URL), `"service":{"namespace":"test","name":"hook"}`,
		base64.StdEncoding.EncodeToString(pemOf(hook.Server)), bundle).Replace(hook.definition("v1"))
	a.run(exchange{do: "POST /api/v1/namespaces/test/services", body: headless, code: 201},
		exchange{do: "POST " + definitions, body: definition, code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201},
		exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec.other": "1"}})
}
