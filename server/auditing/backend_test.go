package auditing

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/plugin/pkg/audit/log"

	"github.com/rowlock/rowlock/resources/bounded"
)

// event returns an event with all fields set.
func event(id string) *auditinternal.Event {
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC))
	who := authenticationv1.UserInfo{Username: "jane <j>", UID: "1", Groups: []string{"g", "h"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	return &auditinternal.Event{Level: auditinternal.LevelRequestResponse, AuditID: "id", Stage: auditinternal.StageResponseComplete, RequestURI: "/api/v1?a=b&c=" + id,
		Verb: "create", User: who, ImpersonatedUser: &who, AuthenticationMetadata: &auditinternal.AuthenticationMetadata{ImpersonationConstraint: "impersonate:user-info"},
		SourceIPs: []string{"127.0.0.1"}, UserAgent: "agent", RequestReceivedTimestamp: at, StageTimestamp: at,
		ObjectRef:      &auditinternal.ObjectReference{Resource: "pods", Namespace: "ns", Name: "p", UID: "u", APIGroup: "g", APIVersion: "v1", ResourceVersion: "3", Subresource: "s"},
		ResponseStatus: &metav1.Status{Code: 409, Reason: "Conflict", Message: "no\u2028", Status: "Failure", Details: &metav1.StatusDetails{Name: "p"}},
		RequestObject:  &runtime.Unknown{Raw: []byte("{ \"a\": \"<b>" + strings.Repeat("x", 2000) + "\",\n\"c\":1 }\n"), ContentType: runtime.ContentTypeJSON},
		ResponseObject: &runtime.Unknown{Raw: []byte(`{"a":"b"}`), ContentType: runtime.ContentTypeJSON},
		Annotations:    map[string]string{"b": "\x01\xff", "a": ""}}
}

// Lines equal upstream's byte for byte.
func TestLinesAreUpstreams(t *testing.T) {
	small := &auditinternal.Event{Level: auditinternal.LevelMetadata}
	none := event("")
	none.RequestObject, none.ResponseObject = &runtime.Unknown{}, nil
	for _, e := range []*auditinternal.Event{event("1"), small, none} {
		var got, want bytes.Buffer
		if !newLines(&got).ProcessEvents(e, e) || !log.NewBackend(&want, log.FormatJson, auditv1.SchemeGroupVersion).ProcessEvents(e, e) {
			t.Fatal("not written")
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("-upstream +lines:\n%s", diff)
		}
	}
	if newLines(broken{}).ProcessEvents(small) {
		t.Error("what could not be written was taken")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// openLog returns an audit that records every request in a file, and the file.
func openLog(t *testing.T, change func(*Options)) (*Auditor, string) {
	t.Helper()
	o := Defaults()
	o.PolicyFile = filepath.Join(t.TempDir(), "policy.yaml")
	o.Log.Path = filepath.Join(t.TempDir(), "in", "audit.log")
	if err := os.WriteFile(o.PolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	change(&o)
	if errs := o.Check(); len(errs) > 0 {
		t.Fatal(errs)
	}
	a, err := Open(o, "rowlock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, o.Log.Path
}

// In every mode and format, each event is a line of a file that only its owner can read, once the audit is closed.
func TestLog(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"blocking": func(*Options) {}, "strict": func(o *Options) { o.Log.Mode = ModeBlockingStrict }, "batch": func(o *Options) { o.Log.Mode = ModeBatch },
		"not rotated": func(o *Options) { o.Log.MaxSize = 0 }, "truncated": func(o *Options) { o.Log.Truncate, o.Log.Bounds.MaxEventSize = true, 1500 },
		"legacy": func(o *Options) { o.Log.Format = log.FormatLegacy },
	} {
		t.Run(name, func(t *testing.T) {
			a, path := openLog(t, change)
			for _, id := range []string{"1", "2", "3"} {
				if !a.backend.ProcessEvents(event(id)) {
					t.Error("an event was not taken")
				}
			}
			a.Close()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found := strings.Split(strings.TrimSpace(string(text)), "\n")
			if len(found) != 3 {
				t.Fatalf("%d lines: %s", len(found), text)
			}
			for i, line := range found {
				if !strings.Contains(line, "c="+string(rune('1'+i))) || strings.Contains(line, "AUDIT: id=") != (name == "legacy") {
					t.Errorf("line %d is %s", i, line)
				}
				if cut := strings.Contains(line, "audit.k8s.io/truncated"); cut != (name == "truncated") || cut == strings.Contains(line, "requestObject") && name != "legacy" {
					t.Errorf("line %d is %s", i, line)
				}
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v %v", info.Mode(), err)
			}
		})
	}
}

// A full file is renamed, and a new one is started.
func TestLogRotates(t *testing.T) {
	a, path := openLog(t, func(o *Options) { o.Log.MaxSize = 1 })
	e := event("1")
	e.RequestObject.Raw = []byte(`"` + strings.Repeat("x", 600<<10) + `"`)
	a.backend.ProcessEvents(e)
	a.backend.ProcessEvents(e)
	a.Close()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "audit*.log"))
	if err != nil || len(files) != 2 {
		t.Errorf("%v %v", files, err)
	}
}

// kubeconfigOf writes the kubeconfig of a webhook.
func kubeconfigOf(t *testing.T, hook *httptest.Server) string {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"`+hook.URL+
		`","certificate-authority":"`+authority+`"}}],"users":[{"name":"u","user":{"token":"secret"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// A webhook gets events over TLS, by its kubeconfig, and gets them again if it did not accept them.
func TestWebhook(t *testing.T) {
	for _, mode := range Modes {
		t.Run(mode, func(t *testing.T) {
			taken := make(chan auditv1.EventList, 10)
			var asked atomic.Int32
			hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("%v", r.Header)
				}
				if asked.Add(1) == 1 {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				var list auditv1.EventList
				if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
					t.Error(err)
				}
				taken <- list
			}))
			defer hook.Close()
			a, _ := openLog(t, func(o *Options) {
				o.Log.Path = ""
				o.Webhook.ConfigFile, o.Webhook.Mode, o.Webhook.InitialBackoff = kubeconfigOf(t, hook), mode, time.Millisecond
			})
			for range 2 {
				if !a.backend.ProcessEvents(event("1")) {
					t.Error("an event was not taken")
				}
			}
			a.Close()
			close(taken)
			got := 0
			for list := range taken {
				for _, e := range list.Items {
					if got++; e.RequestURI != "/api/v1?a=b&c=1" || list.Kind != "EventList" || e.RequestObject == nil {
						t.Errorf("%+v", e)
					}
				}
			}
			if got != 2 {
				t.Errorf("%d events came", got)
			}
		})
	}
}

// A webhook whose answer exceeds the limit has not accepted the events.
func TestLongAnswersOfWebhook(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte(" "), bounded.MostBytes+1)) // until the client stops reading
	}))
	defer hook.Close()
	a, _ := openLog(t, func(o *Options) {
		o.Log.Path = ""
		o.Webhook.ConfigFile, o.Webhook.Mode, o.Webhook.InitialBackoff = kubeconfigOf(t, hook), ModeBlockingStrict, time.Millisecond
	})
	if a.backend.ProcessEvents(event("1")) {
		t.Error("the events were taken")
	}
}

// Options that kube-apiserver refuses are refused with its messages; unused options are not checked.
func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"invalid audit log mode nonsense, allowed modes are \"batch,blocking,blocking-strict\"":     func(o *Options) { o.Log.Mode = "nonsense" },
		"invalid audit log format xml, allowed formats are \"legacy,json\"":                         func(o *Options) { o.Log.Format = "xml" },
		"--audit-log-maxage -1 can't be a negative number":                                          func(o *Options) { o.Log.MaxAge = -1 },
		"invalid audit truncate log max batch size 1, must be greater than max event size (102400)": func(o *Options) { o.Log.Bounds.MaxBatchSize = 1 },
		"invalid group version, allowed versions are [\"audit.k8s.io/v1\"]":                         func(o *Options) { o.Log.Version = "audit.k8s.io/v1beta1" },
		"invalid audit batch webhook buffer size 0, must be a positive number":                      func(o *Options) { o.Webhook.Batch.BufferSize = 0 },
		"invalid audit batch webhook throttle QPS 0, must be a positive number":                     func(o *Options) { o.Webhook.Batch.ThrottleQPS = 0 },
		"invalid audit webhook mode , allowed modes are \"batch,blocking,blocking-strict\"":         func(o *Options) { o.Webhook.Mode = "" },
	} {
		o := Defaults()
		change(&o)
		if errs := o.Check(); len(errs) != 0 {
			t.Errorf("%v although there is no back end", errs)
		}
		o.Log.Path, o.Webhook.ConfigFile = "file", "file"
		if errs := o.Check(); len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("%v\nwant %s", errs, want)
		}
	}
	if a, err := Open(Defaults(), ""); a != nil || err != nil {
		t.Errorf("%v %v without a policy", a, err)
	}
	o := Defaults()
	o.PolicyFile = filepath.Join(t.TempDir(), "none")
	if _, err := Open(o, ""); err == nil || !strings.HasPrefix(err.Error(), "loading audit policy file: ") {
		t.Error(err)
	}
	(*Auditor)(nil).Close()
}

// managedFields are removed wherever they are, with one comma.
func TestWithoutManagedFields(t *testing.T) {
	for in, want := range map[string]string{
		`{"metadata":{"managedFields":[{"a":"b"}],"name":"n"},"x":1}`:                                                                         `{"metadata":{"name":"n"},"x":1}`,
		`{"metadata":{"name":"n","managedFields":[{"a":"b"}]}}`:                                                                               `{"metadata":{"name":"n"}}`,
		`{"metadata":{"a":1, "managedFields" : [ ] , "b":2}}`:                                                                                 `{"metadata":{"a":1,  "b":2}}`,
		`{"metadata":{"managedFields":[]}}`:                                                                                                   `{"metadata":{}}`,
		`{"metadata":{"name":"n"},"spec":{"managedFields":[]}}`:                                                                               `{"metadata":{"name":"n"},"spec":{"managedFields":[]}}`,
		`{"kind":"PodList","metadata":{},"items":[{"metadata":{"managedFields":[1]}},{"metadata":{"managedFields":[2],"u":3}}]}`:              `{"kind":"PodList","metadata":{},"items":[{"metadata":{}},{"metadata":{"u":3}}]}`,
		`{"apiVersion":"example.com/v1","kind":"Table","metadata":{"managedFields":[1],"name":"mine"},"rows":[]}`:                             `{"apiVersion":"example.com/v1","kind":"Table","metadata":{"name":"mine"},"rows":[]}`,
		`{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":[],"object":{"metadata":{"n":1,"managedFields":[1]}}},{"cells":[]}]}`: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":[],"object":{"metadata":{"n":1}}},{"cells":[]}]}`,
		`{"kind":"ToyList","items":"none","metadata":{"managedFields":[1]}}`:                                                                  `{"kind":"ToyList","items":"none","metadata":{}}`,
	} {
		if got := string(withoutManagedFields([]byte(in))); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", in, got, want)
		}
	}
}
