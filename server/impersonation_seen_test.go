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
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/audit/policy"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/authz"
)

// impersonatedServer returns a server with RBAC and an audit. Jane may create ConfigMaps; ann may be jane for that only, and bob may be her for anything.
func impersonatedServer(t *testing.T) (http.Handler, *records) {
	t.Helper()
	rules, err := policy.LoadPolicyFromBytes([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, verbs: [create], resources: [{group: '', resources: [configmaps]}]}, {level: None}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	kept := &records{}
	a, err := auditing.New(policy.NewPolicyRuleEvaluator(rules), kept, "rowlock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	s, _ := guardedBy(t, authz.Options{Modes: []string{"RBAC"}}, func(c *server.Config) { c.Audit = a })
	h := s.Handler()
	who := func(verb string) string {
		return `{"apiGroups":[""],"resources":["users","groups"],"verbs":["` + verb + `"]},{"apiGroups":["authentication.k8s.io"],"resources":["users","groups","uids","userextras/example.com/scopes"],"verbs":["` + verb + `"]}`
	}
	for name, rules := range map[string]string{
		"jane": `{"apiGroups":[""],"resources":["configmaps"],"verbs":["create"]}`,
		"ann":  who("impersonate:user-info") + `,{"apiGroups":[""],"resources":["configmaps"],"verbs":["impersonate-on:user-info:create"]}`,
		"bob":  who("impersonate"),
	} {
		must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", name, rules))
		must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", name, "ClusterRole", name, name))
	}
	return h, kept
}

// The audit, webhooks and policies see an impersonated user with uid and extra. The audit also has the requester, and the mode by which they may
// impersonate the user.
func TestImpersonatedUserIsSeen(t *testing.T) {
	h, kept := impersonatedServer(t)
	jane := authenticationv1.UserInfo{Username: "jane", UID: "7", Groups: []string{"team", "system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"example.com/scopes": {"a", "b"}}}
	asked := make(chan authenticationv1.UserInfo, 10)
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		asked <- review.Request.UserInfo
		review.Request, review.Response = nil, &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	const matches = `{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}`
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	must(t, h, admin, "POST", validatingWebhooks, fmt.Sprintf(`{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":%q,"caBundle":%q},
		"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[%s]}]}`, hook.URL, bundle, matches))
	must(t, h, admin, "POST", policies, `{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[`+matches+`]},"validations":[{"expression":
		"request.userInfo.username == 'jane' && request.userInfo.uid == '7' && request.userInfo.groups == ['team', 'system:authenticated'] && request.userInfo.extra['example.com/scopes'] == ['a', 'b']"}]}}`)
	must(t, h, admin, "POST", policyBindings, `{"metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)
	kept.take()
	for who, constraint := range map[string]string{"ann": "impersonate:user-info", "bob": ""} {
		r := httptest.NewRequest("POST", "/api/v1/namespaces/default/configmaps", strings.NewReader(`{"metadata":{"name":"of-`+who+`"}}`))
		r.Header = http.Header{"Authorization": {who}, "Content-Type": {"application/json"}, "Impersonate-User": {"jane"}, "Impersonate-Uid": {"7"},
			"Impersonate-Group": {"team"}, "Impersonate-Extra-Example.com%2fscopes": {"a", "b"}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusCreated {
			t.Fatalf("%s: %d %s", who, w.Code, w.Body)
		}
		if diff := cmp.Diff(jane, <-asked); diff != "" {
			t.Errorf("%s: the webhook sees (-want +got): %s", who, diff)
		}
		events := kept.take()
		if len(events) != 1 || events[0].User.Username != who || events[0].ImpersonatedUser == nil {
			t.Fatalf("%s: %+v", who, events)
		}
		if diff := cmp.Diff(jane, *events[0].ImpersonatedUser); diff != "" {
			t.Errorf("%s: the audit has (-want +got): %s", who, diff)
		}
		got := ""
		if m := events[0].AuthenticationMetadata; m != nil {
			got = m.ImpersonationConstraint
		}
		if got != constraint {
			t.Errorf("%s: the mode is %q, want %q", who, got, constraint)
		}
	}
}
