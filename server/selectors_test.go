package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/server/authz"
)

// A kubelet may list and watch the Pods of its node by the field selector that says so, and no others.
func TestKubeletsSelectTheirPods(t *testing.T) {
	h, _ := kubelets(t)
	const pods, slices = "/api/v1/pods", "/apis/resource.k8s.io/v1/resourceslices"
	const only, onlySlices = "can only list/watch pods with spec.nodeName field selector", "can only list/watch/deletecollection resourceslices with nodeName field selector"
	for _, r := range []request{
		{"GET", pods + "?fieldSelector=spec.nodeName%3Da", "", 200, `"name":"on-a"`},
		{"GET", pods + "?fieldSelector=spec.nodeName%3D%3Da", "", 200, `"name":"on-a"`},
		{"GET", pods + "?fieldSelector=spec.nodeName%3Da%2Cstatus.phase%21%3DFailed&limit=1", "", 200, `"name":"on-a"`},
		{"GET", "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3Da", "", 200, `"name":"on-a"`},
		{"GET", pods + "?fieldSelector=spec.nodeName%3Da&watch=1&timeoutSeconds=-1", "", 200, ""},
		{"GET", "/api/v1/watch/pods?fieldSelector=spec.nodeName%3Da&timeoutSeconds=-1", "", 403, only}, // selectors do not count in such a path
		{"GET", pods, "", 403, only},
		{"GET", pods + "?watch=1&timeoutSeconds=-1", "", 403, only},
		{"GET", pods + "?fieldSelector=spec.nodeName%3Db", "", 403, only},
		{"GET", pods + "?fieldSelector=spec.nodeName%21%3Da", "", 403, only},
		{"GET", pods + "?fieldSelector=spec.nodeName%3Da%2Cspec.nodeName", "", 403, only}, // no selector
		{"GET", pods + "?labelSelector=spec.nodeName%3Da", "", 403, only},
		{"GET", pods + "?fieldSelector=metadata.name%3Don-a", "", 403, "no relationship found between node 'a' and this object"}, // which has a namespace
		{"GET", "/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Don-a", "", 200, `"name":"on-a"`},
		{"GET", "/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Don-b", "", 403, "no relationship found between node 'a' and this object"},
		{"DELETE", slices + "?fieldSelector=spec.nodeName%3Da", "", 200, ""},
		{"DELETE", slices, "", 403, onlySlices},
		{"GET", "/apis/certificates.k8s.io/v1/podcertificaterequests?fieldSelector=spec.nodeName%3Da", "", 200, ""},
		{"GET", "/apis/certificates.k8s.io/v1/podcertificaterequests", "", 403, "can only list/watch podcertificaterequests with nodeName field selector"},
	} {
		r.check(t, h, kubelet("a"))
	}
	const reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	review := func(selector string) string {
		return `{"spec":{"user":"system:node:a","groups":["system:nodes"],"resourceAttributes":{"verb":"list","version":"v1","resource":"pods"` + selector + `}}}`
	}
	for _, r := range []request{
		{"POST", reviews, review(`,"fieldSelector":{"rawSelector":"spec.nodeName=a"}`), 201, `"status":{"allowed":true}`},
		{"POST", reviews, review(`,"fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"In","values":["a"]}]}`), 201, `"status":{"allowed":true}`},
		{"POST", reviews, review(`,"fieldSelector":{"rawSelector":"spec.nodeName=b"}`), 201, `"allowed":false,"reason":"node: ` + only},
		{"POST", reviews, review(`,"fieldSelector":{"rawSelector":"spec.nodeName"}`), 201, `"allowed":false,"reason":"node: ` + only},
		{"POST", reviews, review(""), 201, `"allowed":false,"reason":"node: ` + only},
		{"POST", reviews, review(`,"fieldSelector":{"rawSelector":"spec.nodeName=a","requirements":[{"key":"spec.nodeName","operator":"In","values":["a"]}]}`), 422,
			"spec.resourceAttributes.fieldSelector.rawSelector"},
	} {
		r.check(t, h, admin)
	}
}

// asking writes an AuthorizationConfiguration with one webhook, which is asked where the condition holds.
func asking(t *testing.T, url, condition string) string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, file := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "authorization.yaml")
	for name, content := range map[string]string{
		kubeconfig: "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: '" + url + "'}}], users: [{name: u}], " +
			"contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}",
		file: "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n" +
			"- {type: Webhook, name: w, webhook: {timeout: 10s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, " +
			"authorizedTTL: 1s, unauthorizedTTL: 1s, cacheAuthorizedRequests: false, cacheUnauthorizedRequests: false, " +
			"connectionInfo: {type: KubeConfigFile, kubeConfigFile: " + kubeconfig + "}, matchConditions: [{expression: \"" + condition + "\"}]}}\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// Webhooks and their match conditions see the selectors of a request, as far as they are valid.
func TestWebhooksSeeSelectors(t *testing.T) {
	var last *authorizationv1.SubjectAccessReviewSpec
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		last = &review.Spec
		fmt.Fprint(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
	}))
	t.Cleanup(hook.Close)
	s, _ := guardedBy(t, authz.Options{File: asking(t, hook.URL, "!has(request.resourceAttributes) || !has(request.resourceAttributes.labelSelector) || "+
		"!request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'team' && r.operator == 'In' && 'red' in r.values)")}, nil)
	fields := func(of ...metav1.FieldSelectorRequirement) *authorizationv1.FieldSelectorAttributes {
		return &authorizationv1.FieldSelectorAttributes{Requirements: of}
	}
	labels := func(of ...metav1.LabelSelectorRequirement) *authorizationv1.LabelSelectorAttributes {
		return &authorizationv1.LabelSelectorAttributes{Requirements: of}
	}
	for _, c := range []struct {
		query  string
		code   int
		fields *authorizationv1.FieldSelectorAttributes
		labels *authorizationv1.LabelSelectorAttributes
	}{
		{"", 200, nil, nil},
		{"fieldSelector=metadata.name%3Dx%2Cspec.nodeName%21%3Dn", 200, fields(metav1.FieldSelectorRequirement{Key: "metadata.name", Operator: "In", Values: []string{"x"}},
			metav1.FieldSelectorRequirement{Key: "spec.nodeName", Operator: "NotIn", Values: []string{"n"}}), nil},
		{"labelSelector=team%3Dblue%2Ctier+notin+(a)%2Chere%2C%21gone", 200, nil, labels(metav1.LabelSelectorRequirement{Key: "gone", Operator: "DoesNotExist"},
			metav1.LabelSelectorRequirement{Key: "here", Operator: "Exists"}, metav1.LabelSelectorRequirement{Key: "team", Operator: "In", Values: []string{"blue"}},
			metav1.LabelSelectorRequirement{Key: "tier", Operator: "NotIn", Values: []string{"a"}})},
		{"labelSelector=team+in+(", 400, nil, nil},
		{"fieldSelector=team", 400, nil, nil},
		{"labelSelector=team+in+(red%2Cblue)", 403, nil, nil}, // the condition rules it out, so that nobody allows it
	} {
		last = nil
		code, body := send(s.Handler(), "jane", "GET", "/api/v1/namespaces/default/pods?"+c.query, "")
		if code != c.code || (last == nil) != (code == 403) {
			t.Errorf("%s: %d %s, the webhook was asked %v", c.query, code, body, last)
			continue
		}
		if last == nil {
			continue
		}
		want := &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "list", Version: "v1", Resource: "pods", FieldSelector: c.fields, LabelSelector: c.labels}
		if strings.Contains(c.query, "metadata.name") {
			want.Name = "x"
		}
		if diff := cmp.Diff(want, last.ResourceAttributes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.query, diff)
		}
	}
}
