package server_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

const (
	mutatingWebhooks   = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	validatingWebhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	policies           = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	policyBindings     = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
)

// admissionWebhooks starts webhooks by path: /patch adds a label and says why, /down fails, /deny denies objects with the name "denied", and /allow
// allows. It returns a configuration with the webhooks of these paths, which fail open.
func admissionWebhooks(t *testing.T) func(name string, paths ...string) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.URL.Path == "/down" {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: r.URL.Path != "/deny" || review.Request.Name != "denied",
			AuditAnnotations: map[string]string{"why": "because of " + r.URL.Path}}
		if r.URL.Path == "/patch" {
			kind := admissionv1.PatchTypeJSONPatch
			answer.PatchType, answer.Patch = &kind, []byte(`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`)
		}
		review.Request, review.Response = nil, answer
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return func(name string, paths ...string) string {
		var hooks []string
		for _, path := range paths {
			hooks = append(hooks, fmt.Sprintf(`{"name":"%s.example.com","clientConfig":{"url":"%s/%s","caBundle":%q},"sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore",
				"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]}`, path, s.URL, path, bundle))
		}
		return fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[%s]}`, name, strings.Join(hooks, ","))
	}
}

// The audit of a request has the annotations of webhooks and policies that kube-apiserver writes; patches only from the level Request on.
func TestAuditOfAdmission(t *testing.T) {
	s, kept := audited(t, `
- {level: Request, verbs: [create], resources: [{group: "", resources: [configmaps]}], namespaces: [request]}
- {level: Metadata, verbs: [create], resources: [{group: "", resources: [configmaps]}]}
- {level: None}`, nil)
	h, configuration := s.Handler(), admissionWebhooks(t)
	create := func(path, body string, want int) {
		t.Helper()
		if w := ask(h, http.MethodPost, path, body); w.Code != want {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, namespace := range []string{"request", "metadata"} {
		create("/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, namespace), 201)
	}
	create(mutatingWebhooks, configuration("m", "patch", "down", "allow"), 201)
	create(validatingWebhooks, configuration("v", "down", "deny"), 201)
	create(policies, `{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]},
		"validations":[{"expression":"true"},{"expression":"object.metadata.name != 'failed'","message":"it has failed"}],
		"auditAnnotations":[{"key":"name","valueExpression":"'is ' + object.metadata.name"},{"key":"none","valueExpression":"null"}]}}`, 201)
	create(policyBindings, `{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Audit","Warn"]}}`, 201)
	kept.take()

	// annotations returns those of a create that admission has written.
	annotations := func(namespace, name string, code int) map[string]string {
		t.Helper()
		create("/api/v1/namespaces/"+namespace+"/configmaps", fmt.Sprintf(`{"metadata":{"name":%q}}`, name), code)
		events := kept.take()
		if len(events) != 2 || events[1].Stage != auditv1.StageResponseComplete {
			t.Fatalf("%d events", len(events))
		}
		all := events[1].Annotations
		for key := range all {
			if strings.HasPrefix(key, "authorization.k8s.io/") || strings.HasPrefix(key, "apiserver.latency.k8s.io/") {
				delete(all, key)
			}
		}
		return all
	}
	mutations := func(further map[string]string) map[string]string {
		all := map[string]string{
			"mutation.webhook.admission.k8s.io/round_0_index_0":               `{"configuration":"m","webhook":"patch.example.com","mutated":true}`,
			"mutation.webhook.admission.k8s.io/round_0_index_1":               `{"configuration":"m","webhook":"down.example.com","mutated":false}`,
			"mutation.webhook.admission.k8s.io/round_0_index_2":               `{"configuration":"m","webhook":"allow.example.com","mutated":false}`,
			"failed-open.mutation.webhook.admission.k8s.io/round_0_index_1":   "down.example.com",
			"failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "down.example.com",
			"patch.example.com/why":                                           "because of /patch",
			"allow.example.com/why":                                           "because of /allow",
			"deny.example.com/why":                                            "because of /deny",
		}
		for key, value := range further {
			all[key] = value
		}
		return all
	}
	const patchKey = "patch.webhook.admission.k8s.io/round_0_index_0"
	for what, c := range map[string]struct {
		namespace, name string
		code            int
		want            map[string]string
	}{
		"Metadata": {"metadata", "a", 201, mutations(map[string]string{"p/name": "is a"})},
		"Request": {"request", "a", 201, mutations(map[string]string{"p/name": "is a",
			patchKey: `{"configuration":"m","webhook":"patch.example.com","patch":[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}],"patchType":"JSONPatch"}`})},
		"denied by a webhook": {"metadata", "denied", 400, mutations(map[string]string{"p/name": "is denied"})},
		"failed a policy": {"metadata", "failed", 201, mutations(map[string]string{"p/name": "is failed",
			"validation.policy.admission.k8s.io/validation_failure": `[{"message":"it has failed","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit","Warn"]}]`})},
	} {
		if diff := cmp.Diff(c.want, annotations(c.namespace, c.name, c.code)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}
