package server_test

import (
	"strings"
	"testing"
)

// Expressions of admission policies that ask what a user may do are told what requests are: by the roles and bindings of this moment.
func TestPoliciesAskTheAuthorizer(t *testing.T) {
	h := guarded(t, "RBAC")
	const admission = "/apis/admissionregistration.k8s.io/v1/"
	must(t, h, admin, "POST", admission+"validatingadmissionpolicies", `{"metadata":{"name":"readers"},"spec":{"matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"validations":[
		{"expression":"authorizer.group('').resource('secrets').namespace('default').check('get').allowed()","message":"only who reads Secrets"},
		{"expression":"!authorizer.path('/metrics').check('get').allowed()","message":"not who reads metrics"},
		{"expression":"authorizer.requestResource.check('create').reason() != ''","message":"who may has a reason"}]}}`)
	must(t, h, admin, "POST", admission+"validatingadmissionpolicybindings", `{"metadata":{"name":"readers"},"spec":{"policyName":"readers","validationActions":["Deny"]}}`)
	give := func(name, rules string) {
		t.Helper()
		must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", name, rules))
		must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", name, "ClusterRole", name, "jane"))
	}
	try := func(want string) {
		t.Helper()
		code, body := send(h, "jane", "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"c-"}}`)
		if (want == "") != (code == 201) || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %q", code, body, want)
		}
	}
	give("writer", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["create"]}`)
	try("only who reads Secrets")
	give("reader", `{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}`)
	try("")
	give("metrics", `{"nonResourceURLs":["/metrics"],"verbs":["get"]}`)
	try("not who reads metrics")
	must(t, h, admin, "DELETE", rbacPath+"clusterrolebindings/metrics", "")
	try("")
}
