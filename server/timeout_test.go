package server_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
)

// slowAdmission delays deletions, and objects of one name, beyond the deadline.
type slowAdmission struct{}

func (slowAdmission) Handles(admission.Operation) bool { return true }

func (slowAdmission) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetName() == "slow" || a.GetOperation() == admission.Delete {
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // another part notices the deadline first
		return ctx.Err()
	}
	return nil
}

// ?timeout= bounds a request. As in kube-apiserver, nothing remains of the original response, and later requests on the connection are unaffected,
// whether the deadline passes before or after the body is read.
func TestTimeout(t *testing.T) {
	var pipeline *resources.Pipeline
	s := newServer(t, func(c *server.Config) { pipeline = c.Pipeline })
	pipeline.Use(slowAdmission{}, nil)
	address, stop, done := serve(t, s)
	const want = `{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout",` +
		`"reason":"Timeout","details":{},"code":504}` + "\n"
	var dialed int
	client := http.Client{Timeout: patience, Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		dialed++
		return new(net.Dialer).DialContext(ctx, network, to)
	}}}
	ask := func(method, path, body string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "known")
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		data, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, a.Header, string(data)
	}
	if code, _, body := ask("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"kept"}}`); code != 201 {
		t.Fatal(code, body)
	}
	for _, timed := range [][3]string{
		{"GET", "/api/v1/namespaces/slow?timeout=1ns", ""},
		{"GET", "/healthz?timeout=1ns", ""},
		{"GET", "/readyz/ping?timeout=1ns", ""},
		{"GET", "/version?timeout=1ns", ""},
		{"GET", "/apis?timeout=1ns", ""},
		{"GET", "/openapi/v2?timeout=1ns", ""},
		{"GET", "/?timeout=1ns", ""},
		{"DELETE", "/api/v1/namespaces/default/configmaps/kept?timeout=1s", ""},
		{"POST", "/api/v1/namespaces/default/configmaps?timeout=1s", `{"metadata":{"name":"slow"}}`},
	} {
		code, header, body := ask(timed[0], timed[1], timed[2])
		if code != 504 || body != want || header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%v: %d %v %s", timed, code, header, body)
		}
		if got := slices.Sorted(maps.Keys(header)); !slices.Equal(got, []string{"Audit-Id", "Cache-Control", "Content-Length", "Content-Type", "Date"}) {
			t.Errorf("%v is answered with %v", timed, header)
		}
		if code, _, body := ask("GET", "/api/v1/namespaces/default", ""); code != 200 {
			t.Errorf("after %v, the next is answered with %d %s", timed, code, body)
		}
	}
	if dialed != 1 {
		t.Errorf("there were %d connections", dialed)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// As with kube-apiserver, the audit has the reason of a request whose deadline has passed, which the handler reports too late for the response.
func TestAuditOfTimeouts(t *testing.T) {
	var pipeline *resources.Pipeline
	s, kept := audited(t, "- level: RequestResponse\n  omitStages: [RequestReceived]", func(c *server.Config) { pipeline = c.Pipeline })
	pipeline.Use(slowAdmission{}, nil)
	ask(s.Handler(), "POST", "/api/v1/namespaces?timeout=100ms", `{"metadata":{"name":"slow"}}`)
	e := expectEvents(t, kept, "RequestResponse ResponseComplete create 504 sent answered")
	const want = "Timeout: request did not complete within requested timeout - context deadline exceeded"
	if len(e) == 1 && (e[0].ResponseStatus.Message != want || e[0].ResponseStatus.Reason != metav1.StatusReasonTimeout) {
		t.Errorf("the event has %+v", e[0].ResponseStatus)
	}
}

// failingAdmission makes the client of a creation leave, and fails for another reason.
type failingAdmission struct{ leave context.CancelFunc }

func (failingAdmission) Handles(o admission.Operation) bool { return o == admission.Create }

func (a failingAdmission) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	a.leave()
	return errors.New("failed calling webhook")
}

// The write of a client that leaves is counted and audited as one whose time is over, as with kube-apiserver, whatever step fails then.
func TestWritesOfClientsThatLeave(t *testing.T) {
	var pipeline *resources.Pipeline
	s, kept := audited(t, "- level: Metadata\n  omitStages: [RequestReceived]", func(c *server.Config) { pipeline = c.Pipeline })
	ctx, leave := context.WithCancel(t.Context())
	pipeline.Use(failingAdmission{leave}, nil)
	r := httptest.NewRequestWithContext(ctx, "POST", "/api/v1/namespaces", strings.NewReader(aNamespace))
	r.Header.Set("Authorization", "master")
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	e := expectEvents(t, kept, "Metadata ResponseComplete create 504")
	const want = "Timeout: request did not complete within requested timeout - context canceled"
	if len(e) == 1 && e[0].ResponseStatus.Message != want {
		t.Errorf("the event has %+v", e[0].ResponseStatus)
	}
	wantLine(t, get(s.Handler(), "/metrics", "master").Body.String(), `apiserver_request_total{code="504",component="apiserver",dry_run="",group="",`+
		`resource="namespaces",scope="resource",subresource="",verb="POST",version="v1"} 1`)
}

// TestTimeoutsOfInventedPaths expects no series of metrics that a client has named, and no panic over a name that is not UTF-8.
func TestTimeoutsOfInventedPaths(t *testing.T) {
	s, _ := servertest.New(t, func(*server.Config) {})
	h := s.Handler()
	for _, path := range []string{"/invented?timeout=1ns", "/%ff?timeout=1ns", "/apis/invented/v1/things?timeout=1ns", "/openapi/v3/invented?timeout=1ns",
		"/api/v1/namespaces/default/pods/a/invented?timeout=1ns", "/api/v1/namespaces/default?timeout=1ns"} {
		if w := get(h, path, "known"); w.Code != http.StatusGatewayTimeout {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	body := get(h, "/metrics", "known").Body.String()
	if strings.Contains(body, "invented") {
		t.Error("a metric has a name that a client has invented")
	}
	if !strings.Contains(body, `apiserver_request_terminations_total{code="504",component="apiserver",group="",resource="namespaces",scope="resource",subresource="",verb="GET",version="v1"}`) {
		t.Error("the timeout of a served resource is not counted")
	}
}
