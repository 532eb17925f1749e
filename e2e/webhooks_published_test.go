package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/e2e/harness"
)

// reviewer is a webhook's server with TLS. It allows everything, and records the reviews of tester's requests.
type reviewer struct {
	*httptest.Server
	bundle []byte

	mu  sync.Mutex
	saw []string
}

// tester is the user whose requests are recorded; the server's own writes are reviewed as well.
const tester = "webhooks-tester"

func newReviewer(t *testing.T) *reviewer {
	t.Helper()
	bundle, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(bundle, key)
	if err != nil {
		t.Fatal(err)
	}
	r := &reviewer{bundle: bundle}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.review))
	r.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *reviewer) review(w http.ResponseWriter, q *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(q.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	a := review.Request
	if a.UserInfo.Username == tester {
		resource := a.Resource.Resource
		if a.SubResource != "" {
			resource += "/" + a.SubResource
		}
		what := fmt.Sprintf("%s %s %s/%s", a.Operation, resource, a.Namespace, a.Name)
		if ptr.Deref(a.DryRun, false) {
			what += " dry"
		}
		r.mu.Lock()
		r.saw = append(r.saw, what+": "+strings.TrimPrefix(q.URL.Path, "/"))
		r.mu.Unlock()
	}
	review.Response = &admissionv1.AdmissionResponse{UID: a.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// seen returns the reviews since the last call, in order.
func (r *reviewer) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	saw := r.saw
	r.saw = nil
	slices.Sort(saw)
	return saw
}

// patient is the timeout of webhooks: delays of a busy machine must not show.
const patient = int32(30)

// register writes a configuration whose webhooks point to the reviewer, each with its kind and name as path. Everything else is as published.
func (r *reviewer) register(t *testing.T, s *sectionServer, p harness.PublishedWebhooks) {
	t.Helper()
	client := func(kind, name string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: ptr.To(r.URL + "/" + kind + "/" + name), CABundle: r.bundle}
	}
	path, body := "mutatingwebhookconfigurations", any(nil)
	if p.Mutating != nil {
		c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Webhooks: slices.Clone(p.Mutating)}
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig, c.Webhooks[i].TimeoutSeconds = client("mutating", c.Webhooks[i].Name), ptr.To(patient)
		}
		body = c
	} else {
		c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Webhooks: slices.Clone(p.Validating)}
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig, c.Webhooks[i].TimeoutSeconds = client("validating", c.Webhooks[i].Name), ptr.To(patient)
		}
		path, body = "validatingwebhookconfigurations", c
	}
	if a := s.send(t, step{Send: "POST /apis/admissionregistration.k8s.io/v1/" + path, Body: body}, nil); a.code != http.StatusCreated {
		t.Fatalf("%s: %s: %d %s", s.name, p.Name, a.code, a.text)
	}
}

// TestPublishedWebhooks checks that the webhooks that projects publish are called for the requests that they match, and for no others: each request
// lists the webhooks to be called. With E2E_PEER=kube-apiserver (`make compare`) kube-apiserver has to call the same.
func TestPublishedWebhooks(t *testing.T) {
	if err := harness.Build(t.Context(), "helm"); err != nil {
		t.Fatal(err)
	}
	published, definitions, err := harness.WebhookConfigurations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range startSectionServers(t, "") {
		t.Run(s.name, func(t *testing.T) {
			for _, d := range definitions {
				if a := s.send(t, step{Send: "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", Body: d}, nil); a.code != http.StatusCreated {
					t.Fatalf("%s: %d %s", d.Name, a.code, a.text)
				}
			}
			r := newReviewer(t)
			for _, p := range published {
				r.register(t, s, p)
			}
			if s.reference { // it learns of configurations and definitions with a delay
				s.awaitReviews(t, r)
			}
			for _, q := range reviewedRequests {
				q.run(t, s, r)
			}
		})
	}
}

// awaitReviews waits until all expected webhooks are called.
func (s *sectionServer) awaitReviews(t *testing.T, r *reviewer) {
	t.Helper()
	s.createNamespace(t, "early")
	probes := []reviewedRequest{
		{send: "POST /api/v1/namespaces/early/configmaps?dryRun=All", body: `{"metadata":{"name":"a"}}`,
			want: reviewedBy("CREATE configmaps early/a dry", byAll, byOthers, byApps, bySome)},
		{send: "POST /apis/cert-manager.io/v1/namespaces/early/issuers?dryRun=All", body: `{"apiVersion":"cert-manager.io/v1","kind":"Issuer","metadata":{"name":"a"},"spec":{"selfSigned":{}}}`,
			want: reviewedBy("CREATE issuers early/a dry", byAll, byCertManager)},
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		missing := slices.ContainsFunc(probes, func(q reviewedRequest) bool {
			a := q.ask(t, s)
			return !slices.Equal(q.want, r.seen()) || a.code != http.StatusCreated
		})
		if !missing {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the webhooks are not asked")
		}
	}
}

// reviewedRequest is a request of tester's, with the code of its answer, and the expected webhook calls.
type reviewedRequest struct {
	send, body string
	code       int // 0: any
	want       []string
	// again: they are called more than once, as a Pod is marked and then removed. kube-apiserver calls again whenever its cache was behind.
	again bool
}

func (q reviewedRequest) ask(t *testing.T, s *sectionServer) answer {
	t.Helper()
	headers := map[string]string{"Impersonate-User": tester, "Impersonate-Group": "system:masters"}
	if strings.HasPrefix(q.send, "PATCH") {
		headers["Content-Type"] = "application/merge-patch+json"
	}
	if strings.Contains(q.send, "fieldManager") {
		headers["Content-Type"] = "application/apply-patch+yaml"
	}
	sent := step{Send: q.send, Headers: headers}
	if q.body != "" {
		sent.Body = q.body
		headers["Content-Type"] = orElse(headers["Content-Type"], "application/json")
	}
	return s.send(t, sent, nil)
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (q reviewedRequest) run(t *testing.T, s *sectionServer, r *reviewer) {
	t.Helper()
	a := q.ask(t, s)
	if q.code != 0 && a.code != q.code {
		t.Errorf("%s: %d %s", q.send, a.code, bytes.TrimSpace(a.text))
	}
	saw := r.seen()
	if q.again || s.reference {
		saw = slices.Compact(saw)
	}
	if diff := cmp.Diff(q.want, saw); diff != "" {
		t.Errorf("%s %s: asked were (-want +got):\n%s", q.send, q.body, diff)
	}
}

// reviewedBy are the reviews by some webhooks, in the order of seen.
func reviewedBy(what string, by ...[]string) []string {
	var all []string
	for _, name := range slices.Concat(by...) {
		all = append(all, what+": "+name)
	}
	slices.Sort(all)
	return all
}
