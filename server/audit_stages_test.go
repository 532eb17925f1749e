package server_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
)

const everything = "- level: Metadata"

// A request that is rejected before its user or deadline is known has one event, when the response begins.
func TestAuditRefusals(t *testing.T) {
	s, kept := audited(t, everything, nil)
	for _, refused := range []struct {
		path, authorization string
		want                string
	}{
		{"/api/v1/namespaces", "nonsense", "Metadata ResponseStarted list 401"},
		{"/api/v1/namespaces?timeout=soon", "master", "Metadata ResponseStarted list 400"},
	} {
		w := servertest.Get(s.Handler(), refused.path, refused.authorization)
		e := expectEvents(t, kept, refused.want)
		if len(e) == 1 && (e[0].ResponseStatus.Status != metav1.StatusFailure || w.Header().Get("Audit-Id") != string(e[0].AuditID) || e[0].User.Username != "") {
			t.Errorf("%s: %+v", refused.path, e[0])
		}
	}
}

// Requests at level None have no events. If an event must be recorded and cannot be, the request fails. Each of it is counted.
func TestAuditPolicy(t *testing.T) {
	s, kept := audited(t, "- level: None\n  verbs: [get]\n- level: Metadata", nil)
	before := auditMetrics(t)
	ask(s.Handler(), "GET", "/api/v1/namespaces/none", "")
	expectEvents(t, kept)
	kept.refuse = true
	w := ask(s.Handler(), "POST", "/api/v1/namespaces", aNamespace)
	if w.Code != http.StatusInternalServerError || w.Body.String() != `Internal Server Error: "/api/v1/namespaces": failed to store audit event`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	expectEvents(t, kept, "Metadata RequestReceived create")
	kept.refuse = false
	if w := ask(s.Handler(), "GET", "/api/v1/namespaces/ns", ""); w.Code != http.StatusNotFound {
		t.Errorf("it was carried out: %d", w.Code)
	}
	ask(s.Handler(), "POST", "/api/v1/namespaces", aNamespace)
	expectEvents(t, kept, "Metadata RequestReceived create", "Metadata ResponseComplete create 201")
	after := auditMetrics(t)
	for name, want := range map[string]float64{"apiserver_audit_level_total None": 2, "apiserver_audit_level_total Metadata": 2,
		"apiserver_audit_event_total": 3, "apiserver_audit_requests_rejected_total": 1} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%s went up by %v, want %v", name, got, want)
		}
	}
}

// auditMetrics returns the counters of the audit, by name and label.
func auditMetrics(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			if strings.HasPrefix(name, "apiserver_audit_") {
				all[name] = m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// A stream has an event at its beginning, and one at its end.
func TestAuditStreams(t *testing.T) {
	s, kept := audited(t, everything, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequest("GET", "/api/v1/namespaces?watch=true", nil).WithContext(ctx)
	r.Header.Set("Authorization", "master")
	done := make(chan struct{})
	begun := make(chan struct{})
	go func() {
		defer close(done)
		s.Handler().ServeHTTP(&signaling{ResponseRecorder: httptest.NewRecorder(), begun: begun}, r)
	}()
	<-begun
	expectEvents(t, kept, "Metadata RequestReceived watch", "Metadata ResponseStarted watch 200")
	cancel()
	<-done
	expectEvents(t, kept, "Metadata ResponseComplete watch 200")
	// A stream that is rejected ends at once.
	ask(s.Handler(), "GET", "/api/v1/namespaces?watch=true&labelSelector=!!", "")
	expectEvents(t, kept, "Metadata RequestReceived watch", "Metadata ResponseStarted watch 400", "Metadata ResponseComplete watch 400")
}

// signaling tells when a response begins.
type signaling struct {
	*httptest.ResponseRecorder
	begun chan struct{}
}

func (s *signaling) WriteHeader(code int) {
	s.ResponseRecorder.WriteHeader(code)
	close(s.begun)
}

// A panic is the last event of a request, instead of its completion. The log has it without the client's credential.
func TestAuditPanics(t *testing.T) {
	var log bytes.Buffer
	s, kept := audited(t, "- level: RequestResponse", func(c *server.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.Pipeline = resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Audit: c.Audit, Authorizer: authorizer.AuthorizerFunc(
			func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetVerb() == "list" {
					panic("unforeseen")
				}
				return authorizer.DecisionAllow, "so be it", nil
			})})
	})
	if w := ask(s.Handler(), "GET", "/api/v1/namespaces", ""); w.Code != http.StatusInternalServerError {
		t.Errorf("%d", w.Code)
	}
	e := expectEvents(t, kept, "RequestResponse RequestReceived list", "RequestResponse Panic list 500")
	if e[1].ResponseStatus.Message != "APIServer panic'd: unforeseen" {
		t.Errorf("%+v", e[1].ResponseStatus)
	}
	if text := log.String(); !strings.Contains(text, "panic=unforeseen") || strings.Contains(text, "master") { // the client's Authorization
		t.Errorf("the log is %s", text)
	}
}

// If the client of a list disconnects, or the deadline passes, during the response, the request is recorded as answered.
func TestAuditLists(t *testing.T) {
	s, kept := audited(t, everything, nil)
	for name, end := range map[string]error{"the client goes": context.Canceled, "the time ends": context.DeadlineExceeded} {
		for _, accept := range []string{"application/json", "application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1"} {
			ctx := &endable{Context: t.Context(), done: make(chan struct{})}
			r := httptest.NewRequest("GET", "/api/v1/namespaces", nil).WithContext(ctx)
			r.Header.Set("Authorization", "master")
			r.Header.Set("Accept", accept)
			func() {
				defer func() {
					if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares so
						panic(p)
					}
				}()
				s.Handler().ServeHTTP(&deaf{ResponseRecorder: httptest.NewRecorder(), end: func() { ctx.end(end) }}, r)
			}()
			t.Run(name+" "+accept, func(t *testing.T) {
				expectEvents(t, kept, "Metadata RequestReceived list", "Metadata ResponseComplete list 200")
			})
		}
	}
}

// endable is a context that ends on demand.
type endable struct {
	context.Context
	once sync.Once
	done chan struct{}
	err  atomic.Pointer[error]
}

func (c *endable) Done() <-chan struct{} { return c.done }
func (c *endable) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *endable) end(err error) {
	c.once.Do(func() {
		c.err.Store(&err)
		close(c.done)
	})
}

// deaf is a client that reads nothing.
type deaf struct {
	*httptest.ResponseRecorder
	end func()
}

func (d *deaf) Write([]byte) (int, error) {
	d.end()
	return 0, io.ErrClosedPipe
}

// The audit records discovery documents and discovery errors like other responses.
func TestAuditDiscovery(t *testing.T) {
	s, kept := audited(t, "- level: RequestResponse\n  omitStages: [RequestReceived]", nil)
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, c := range []struct{ path, accept, code, kind string }{
		{"/api", "application/yaml", "200", "APIVersions"}, {"/apis", "application/vnd.kubernetes.protobuf", "200", "APIGroupList"},
		{"/apis/apps", "application/json", "200", "APIGroup"}, {"/apis/apps/v1", "application/yaml", "200", "APIResourceList"},
		{"/api", aggregated, "200", "APIGroupDiscoveryList"}, {"/apis", aggregated, "200", "APIGroupDiscoveryList"}, {"/apis/apps/v1", "text/html", "406", ""},
	} {
		ask(s.Handler(), "GET", c.path, "", "Accept", c.accept)
		if c.kind == "" { // no event has a Status that the client does not accept
			if e := expectEvents(t, kept, "RequestResponse ResponseComplete get "+c.code); e[0].ResponseStatus.Message != "" {
				t.Errorf("%s as %s: %v", c.path, c.accept, e[0].ResponseStatus)
			}
			continue
		}
		e := expectEvents(t, kept, "RequestResponse ResponseComplete get "+c.code+" answered")
		if len(e) == 1 && (!strings.HasPrefix(string(e[0].ResponseObject.Raw), `{"kind":"`+c.kind+`",`)) {
			t.Errorf("%s as %s: %v", c.path, c.accept, e[0].ResponseObject)
		}
	}
}

// An event has the user, the impersonated user, and the authorization decision.
func TestAuditAnnotations(t *testing.T) {
	s, kept := audited(t, everything+"\n  omitStages: [RequestReceived]", func(c *server.Config) {
		c.Pipeline = resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Audit: c.Audit, Authorizer: authorizer.AuthorizerFunc(
			func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetVerb() == "list" {
					return authorizer.DecisionNoOpinion, "no rule", nil
				}
				return authorizer.DecisionAllow, "so be it", nil
			})})
		c.AllowsAnonymous = func(string) bool { return true }
	})
	const decision, reason = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
	ask(s.Handler(), "GET", "/api/v1/namespaces", "")
	e := expectEvents(t, kept, "Metadata ResponseComplete list 403")[0]
	if e.Annotations[decision] != "forbid" || e.Annotations[reason] != "no rule" {
		t.Errorf("%v", e.Annotations)
	}
	ask(s.Handler(), "GET", "/api/v1/namespaces/none", "", "Impersonate-User", "jane", "Impersonate-Group", "g")
	e = expectEvents(t, kept, "Metadata ResponseComplete get 404")[0]
	if e.Annotations[decision] != "allow" || e.Annotations[reason] != "so be it" {
		t.Errorf("%v", e.Annotations)
	}
	if as := e.ImpersonatedUser; e.User.Username != "master" || as == nil || as.Username != "jane" || strings.Join(as.Groups, " ") != "g system:authenticated" {
		t.Errorf("%v as %v", e.User, as)
	}
	ask(s.Handler(), "GET", "/api/v1/componentstatuses", "")
	kept.take()
}

// The server's own writes are recorded as requests of its own user, even within a client's request; a client's write is recorded once.
func TestAuditOwnWrites(t *testing.T) {
	var pipeline *resources.Pipeline
	var registry *resources.Registry
	s, kept := audited(t, "- level: RequestResponse\n  omitStages: [RequestReceived]", func(c *server.Config) { pipeline, registry = c.Pipeline, c.Registry })
	maps, _ := registry.Catalog().Type("configmaps")
	write := func(ctx context.Context, who resources.Actor) error {
		ctx = who.Request(ctx, "create", maps, maps.KeyOf("ns", "a"))
		_, err := pipeline.Create(ctx, &resources.CreateRequest{Type: maps, Object: &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}})
		return err
	}
	ask(s.Handler(), "POST", "/api/v1/namespaces", aNamespace)
	expectEvents(t, kept, "RequestResponse ResponseComplete create 201 sent answered")
	if err := write(t.Context(), resources.APIServer); err != nil {
		t.Fatal(err)
	}
	e := expectEvents(t, kept, "RequestResponse ResponseComplete create 201 sent answered")[0]
	if e.User.Username != user.APIServerUser || e.RequestURI != "/api/v1/namespaces/ns/configmaps" || e.ObjectRef.Name != "a" || e.UserAgent != "rowlock" || e.AuditID == "" {
		t.Errorf("%+v", e)
	}
	if strings.Join(e.User.Groups, " ") != "system:authenticated system:masters" || uuid.Validate(e.User.UID) != nil {
		t.Errorf("the server's own user is %+v", e.User)
	}
	controller := resources.Controller("namespace-controller")
	if err := write(t.Context(), controller); err == nil {
		t.Error("it was created twice")
	}
	e = expectEvents(t, kept, "RequestResponse ResponseComplete create 409 sent answered")[0]
	if e.ResponseStatus.Reason != metav1.StatusReasonAlreadyExists {
		t.Errorf("%+v", e.ResponseStatus)
	}
	if !strings.HasPrefix(e.UserAgent, "kube-controller-manager/v") || !strings.HasSuffix(e.UserAgent, "/"+controller.GetName()) {
		t.Errorf("a controller's User-Agent is %q", e.UserAgent)
	}
	_, err := pipeline.Delete(resources.APIServer.Request(t.Context(), "delete", maps, maps.KeyOf("ns", "a")), &resources.DeleteRequest{Type: maps, Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	e = expectEvents(t, kept, "RequestResponse ResponseComplete delete 200 sent answered")[0]
	if e.ResponseStatus.Status != metav1.StatusSuccess || e.ResponseStatus.Details.Name != "a" || e.RequestURI != "/api/v1/namespaces/ns/configmaps/a" {
		t.Errorf("%+v", e)
	}
	// Write within a client's request.
	within, keptWithin := audited(t, everything+"\n  omitStages: [RequestReceived]", func(c *server.Config) {
		inner := c.Authenticator
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			_ = write(r.Context(), resources.APIServer)
			return inner(r)
		}
		pipeline = c.Pipeline
	})
	ask(within.Handler(), "GET", "/api/v1/namespaces/none", "")
	if got := keptWithin.take(); len(got) != 2 || got[0].User.Username != user.APIServerUser || got[1].User.Username != "master" || got[0].AuditID == got[1].AuditID {
		t.Errorf("%+v", got)
	}
}
