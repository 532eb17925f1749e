package server_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/servertest"
)

// records is an audit backend that keeps the events.
type records struct {
	mu     sync.Mutex
	events []auditv1.Event
	// refuse makes the backend reject all events.
	refuse bool
}

func (r *records) ProcessEvents(events ...*auditinternal.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		var v1 auditv1.Event
		if err := auditv1.Convert_audit_Event_To_v1_Event(e.DeepCopy(), &v1, nil); err != nil {
			panic(err)
		}
		r.events = append(r.events, v1)
	}
	return !r.refuse
}

func (*records) Run(<-chan struct{}) error { return nil }
func (*records) Shutdown()                 {}
func (*records) String() string            { return "records" }

// take returns and clears the events so far.
func (r *records) take() []auditv1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// audited returns a server whose audit events are kept, with a policy of these rules.
func audited(t testing.TB, rules string, change func(*server.Config)) (*server.Server, *records) {
	t.Helper()
	p, err := policy.LoadPolicyFromBytes([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n" + rules))
	if err != nil {
		t.Fatal(err)
	}
	kept := &records{}
	a, err := auditing.New(policy.NewPolicyRuleEvaluator(p), kept, "rowlock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	s, _ := servertest.New(t, func(c *server.Config) {
		c.Audit, c.Pipeline = a, resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Audit: a})
		if change != nil {
			change(c)
		}
	})
	return s, kept
}

// ask sends a request as master, with the audit ID "id".
func ask(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, bytes.NewBufferString(body))
	r.Header.Set("Authorization", "master")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Audit-Id", "id")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// brief summarizes each event: level, stage, verb, code and the objects in it.
func brief(events []auditv1.Event) (all []string) {
	for _, e := range events {
		text := string(e.Level) + " " + string(e.Stage) + " " + e.Verb
		if e.ResponseStatus != nil {
			code, _ := json.Marshal(e.ResponseStatus.Code)
			text += " " + string(code)
		}
		if e.RequestObject != nil {
			text += " sent"
		}
		if e.ResponseObject != nil {
			text += " answered"
		}
		all = append(all, text)
	}
	return all
}

func expectEvents(t *testing.T, kept *records, want ...string) []auditv1.Event {
	t.Helper()
	events := kept.take()
	if diff := cmp.Diff(want, brief(events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	return events
}

const aNamespace = `{"metadata":{"name":"ns"}}`

// Events have the objects of their level, and each request has the events of its stages, answered or rejected.
func TestAuditLevels(t *testing.T) {
	for level, objects := range map[string]string{"Metadata": "", "Request": " sent", "RequestResponse": " sent answered"} {
		t.Run(level, func(t *testing.T) {
			s, kept := audited(t, "- level: "+level, nil)
			answered := ""
			if strings.Contains(objects, "answered") {
				answered = " answered"
			}
			received := func(verb string) string { return level + " RequestReceived " + verb }
			complete := func(rest string) string { return level + " ResponseComplete " + rest }

			w := ask(s.Handler(), "POST", "/api/v1/namespaces", aNamespace)
			e := expectEvents(t, kept, received("create"), complete("create 201"+objects))[1]
			if id := w.Header().Get("Audit-Id"); id != "id" || e.AuditID != "id" {
				t.Errorf("the ID is %q in the answer and %q in the event", id, e.AuditID)
			}
			if e.ObjectRef == nil || e.ObjectRef.Name != "ns" || e.ObjectRef.Resource != "namespaces" || e.User.Username != "master" || e.RequestURI != "/api/v1/namespaces" {
				t.Errorf("the event is %+v", e)
			}
			ask(s.Handler(), "GET", "/api/v1/namespaces/ns", "")
			expectEvents(t, kept, received("get"), complete("get 200"+answered))
			ask(s.Handler(), "GET", "/api/v1/namespaces", "")
			expectEvents(t, kept, received("list"), complete("list 200"+answered))
			ask(s.Handler(), "GET", "/api/v1/namespaces/none", "")
			e = expectEvents(t, kept, received("get"), complete("get 404"+answered))[1]
			if e.ResponseStatus.Reason != "NotFound" || e.ResponseStatus.Details == nil || e.ResponseStatus.Details.Name != "none" {
				t.Errorf("the status is %+v", e.ResponseStatus)
			}
			ask(s.Handler(), "PATCH", "/api/v1/namespaces/ns", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
			expectEvents(t, kept, received("patch"), complete("patch 200"+objects))
			ask(s.Handler(), "DELETE", "/api/v1/namespaces/ns", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan"}`)
			expectEvents(t, kept, received("delete"), complete("delete 200"+objects))
			ask(s.Handler(), "GET", "/nowhere", "")
			expectEvents(t, kept, received("get"), complete("get 404"))
		})
	}
}

// For a request of half a second the audit records the durations of its parts, as kube-apiserver does: errors and discovery have no object to make,
// and what is no API object is not encoded as one.
func TestAuditSaysWhereTimeWent(t *testing.T) {
	s, kept := audited(t, "- level: Metadata", func(c *server.Config) {
		who := c.Authenticator
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			time.Sleep(501 * time.Millisecond)
			return who(r)
		}
	})
	const always, written = "authentication authorization ", "response-write serialize-response-object total "
	for _, c := range []struct{ do, body, want string }{
		{"POST /api/v1/namespaces", aNamespace, always + "etcd " + written + "transform-response-object "},
		{"GET /api/v1/namespaces/ns", "", always + written + "transform-response-object "},
		{"GET /api/v1/namespaces", "", always + written + "transform-response-object "},
		{"GET /api/v1/namespaces/none", "", always + written},
		{"GET /api", "", always + written},
		{"GET /version", "", always + "response-write total "},
		{"GET /version as jane", "", always + "impersonation response-write total "},
	} {
		method, path, _ := strings.Cut(c.do, " ")
		path, as, _ := strings.Cut(path, " as ")
		var headers []string
		if as != "" {
			headers = []string{"Impersonate-User", as, "Impersonate-Group", user.SystemPrivilegedGroup} // which waits in no queue
		}
		ask(s.Handler(), method, path, c.body, headers...)
		events, got := kept.take(), ""
		for _, name := range slices.Sorted(maps.Keys(events[len(events)-1].Annotations)) {
			if part, ok := strings.CutPrefix(name, "apiserver.latency.k8s.io/"); ok && (part != "etcd" || method == "POST") { // reads need not query the database
				got += part + " "
			}
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", c.do, got, c.want)
		}
	}
}

// At level Metadata no data of a Secret are recorded, even if a patch is rejected with an error that quotes the patched object.
func TestAuditKeepsSecrets(t *testing.T) {
	const old, sent = "b2xk", "not-encoded!"
	patches := map[string]string{
		"application/merge-patch+json":           `{"data":{"new":"` + sent + `"}}`,
		"application/strategic-merge-patch+json": `{"data":{"new":"` + sent + `"}}`,
		"application/json-patch+json":            `[{"op":"add","path":"/data/new","value":"` + sent + `"}]`,
	}
	for level, recorded := range map[string]bool{"Metadata": false, "Request": true} {
		var log bytes.Buffer
		s, kept := audited(t, "- level: "+level+"\n  omitStages: [RequestReceived]", func(c *server.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		ask(s.Handler(), "POST", "/api/v1/namespaces", aNamespace)
		ask(s.Handler(), "POST", "/api/v1/namespaces/ns/secrets", `{"metadata":{"name":"s"},"data":{"a":"`+old+`"}}`)
		kept.take()
		for form, patch := range patches {
			w := ask(s.Handler(), "PATCH", "/api/v1/namespaces/ns/secrets/s", patch, "Content-Type", form)
			if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), sent) {
				t.Errorf("%s: the answer is %d: %s", form, w.Code, w.Body)
			}
			event, err := json.Marshal(kept.take())
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Contains(event, []byte(old)) || bytes.Contains(event, []byte(sent)); got != recorded || !bytes.Contains(event, []byte("is invalid: patch: Invalid value: ")) {
				t.Errorf("%s, %s: the events are %s", level, form, event)
			}
		}
		for _, refused := range [][2]string{{"PATCH", `{"$patch":"Replace","data":{"new":"` + sent + `"}}`}, {"PUT", `{"data":{"n":"` + sent + `"},}`}} {
			w := ask(s.Handler(), refused[0], "/api/v1/namespaces/ns/secrets/s", refused[1], "Content-Type", map[string]string{"PATCH": "application/strategic-merge-patch+json", "PUT": "application/json"}[refused[0]])
			event, err := json.Marshal(kept.take())
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Contains(event, []byte(sent)); !strings.Contains(w.Body.String(), sent) || got != recorded {
				t.Errorf("%s, %s: the events are %s, the answer %s", refused, level, event, w.Body)
			}
		}
		w := ask(s.Handler(), "PATCH", "/api/v1/namespaces/ns/secrets/s?fieldManager=m", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"new":["`+sent+`"]}}`,
			"Content-Type", "application/apply-patch+yaml")
		event, err := json.Marshal(kept.take())
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(event, []byte(sent)); !strings.Contains(w.Body.String(), sent) || got != recorded || !bytes.Contains(event, []byte("failed to create typed patch object")) {
			t.Errorf("apply, %s: the events are %s, the answer %s", level, event, w.Body)
		}
		if !bytes.Contains(log.Bytes(), []byte("request failed")) || bytes.Contains(log.Bytes(), []byte(sent)) {
			t.Errorf("the log is %s", log.Bytes())
		}
	}
}

// Nor is the beginning of a token, which the error about a malformed TokenReview quotes.
func TestAuditKeepsTokens(t *testing.T) {
	const token = "s3cret"
	for level, recorded := range map[string]bool{"Metadata": false, "Request": true} {
		s, kept := audited(t, "- level: "+level+"\n  omitStages: [RequestReceived]", nil)
		w := ask(s.Handler(), "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"`+token+`"},}`)
		event, err := json.Marshal(kept.take())
		if err != nil {
			t.Fatal(err)
		}
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), token) {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		if got := bytes.Contains(event, []byte(token)); got != recorded || !bytes.Contains(event, []byte("the object provided is unrecognized")) {
			t.Errorf("%s: the events are %s", level, event)
		}
	}
}

// The audit records the response that the client got, whatever its encoding.
func TestAuditRecordsTheAnswer(t *testing.T) {
	s, kept := audited(t, "- level: RequestResponse\n  omitStages: [RequestReceived]", nil)
	ask(s.Handler(), "POST", "/api/v1/namespaces", aNamespace)
	kept.take()
	for _, path := range []string{"/api/v1/namespaces/ns", "/api/v1/namespaces"} {
		for _, as := range []string{"", ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			plain := ask(s.Handler(), "GET", path, "", "Accept", "application/json"+as)
			var want any
			if err := json.Unmarshal(plain.Body.Bytes(), &want); err != nil {
				t.Fatal(err)
			}
			kept.take()
			for _, media := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"} {
				w := ask(s.Handler(), "GET", path, "", "Accept", media+as)
				events := kept.take()
				if w.Code == http.StatusNotAcceptable { // as in kube-apiserver, no event has a Status in a format that the client does not accept
					if len(events) != 1 || events[0].ResponseObject != nil || events[0].ResponseStatus.Code != http.StatusNotAcceptable {
						t.Errorf("%s as %s%s: %v", path, media, as, brief(events))
					}
					continue
				}
				if len(events) != 1 || events[0].ResponseObject == nil {
					t.Fatalf("%s as %s%s: %v", path, media, as, brief(events))
				}
				var got any
				if err := json.Unmarshal(events[0].ResponseObject.Raw, &got); err != nil {
					t.Fatal(err)
				}
				for _, table := range []any{want, got} {
					withoutAges(table)
				}
				if diff := cmp.Diff(want, got); diff != "" && events[0].ResponseStatus.Code == http.StatusOK {
					t.Errorf("%s as %s%s (-answered +recorded):\n%s", path, media, as, diff)
				}
			}
		}
	}
}

// withoutAges removes the time-dependent ages from the rows of a Table of namespaces.
func withoutAges(table any) {
	rows, _ := table.(map[string]any)["rows"].([]any)
	for _, row := range rows {
		if cells := row.(map[string]any)["cells"].([]any); len(cells) > 2 {
			cells[2] = "an age"
		}
	}
}

// Stages and managedFields are omitted as the policy says.
func TestAuditOmits(t *testing.T) {
	s, kept := audited(t, "- level: RequestResponse\n  omitStages: [RequestReceived]\n  omitManagedFields: true", nil)
	for _, send := range []struct{ method, path, body, accept string }{
		{"POST", "/api/v1/namespaces", `{"metadata":{"name":"ns","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]}}`, ""},
		{"GET", "/api/v1/namespaces/ns", "", ""},
		{"GET", "/api/v1/namespaces", "", ""},
		{"GET", "/api/v1/namespaces", "", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
		{"GET", "/api/v1/namespaces?includeObject=Object", "", "application/json;as=Table;v=v1;g=meta.k8s.io"},
	} {
		w := ask(s.Handler(), send.method, send.path, send.body, "Accept", send.accept)
		if !strings.Contains(w.Body.String(), `managedFields":[`) {
			t.Fatalf("%s %s has nothing to leave out: %s", send.method, send.path, w.Body)
		}
		events := kept.take()
		if len(events) != 1 {
			t.Fatalf("%s %s: %v", send.method, send.path, brief(events))
		}
		for _, object := range []*runtime.Unknown{events[0].RequestObject, events[0].ResponseObject} {
			if object != nil && (strings.Contains(string(object.Raw), "managedFields") || !json.Valid(object.Raw)) {
				t.Errorf("%s %s: %s", send.method, send.path, object.Raw)
			}
		}
	}
}
