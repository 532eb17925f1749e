package server_test

import (
	"strings"
	"testing"
)

// Authorizer expressions in admission policies decide as requests are decided: by the current roles and bindings.
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

// Authorizer expressions in the matchConditions of webhooks decide in the same way. The webhook, which is down, shows when they match.
func TestWebhooksAskTheAuthorizer(t *testing.T) {
	h := guarded(t, "RBAC")
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "writer", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["create"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "writer", "ClusterRole", "writer", "jane"))
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		must(t, h, admin, "POST", "/apis/admissionregistration.k8s.io/v1/"+resource, `{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":"https://127.0.0.1:1/"},
			"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}],
			"matchConditions":[{"name":"c","expression":"!authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"}]}]}`)
		create := func(want int) {
			t.Helper()
			if code, body := send(h, "jane", "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"c-"}}`); code != want {
				t.Errorf("%s: %d %s, want %d", resource, code, body, want)
			}
		}
		create(500)
		must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "reader", `{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}`))
		must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "reader", "ClusterRole", "reader", "jane"))
		create(201)
		must(t, h, admin, "DELETE", rbacPath+"clusterrolebindings/reader", "")
		must(t, h, admin, "DELETE", rbacPath+"clusterroles/reader", "")
		create(500)
		must(t, h, admin, "DELETE", "/apis/admissionregistration.k8s.io/v1/"+resource+"/w", "")
	}
}

// A user who makes a policy read parameters needs the right to read them: otherwise expressions could disclose Secrets.
func TestParametersTakeRights(t *testing.T) {
	h := guarded(t, "RBAC")
	const admission = "/apis/admissionregistration.k8s.io/v1/"
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "policies", `{"apiGroups":["admissionregistration.k8s.io"],"resources":["*"],"verbs":["create","get","patch"]},`+
		`{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "policies", "ClusterRole", "policies", "jane"))
	for _, kind := range []struct{ resource, spec, binding, denied string }{
		{"validatingadmissionpolic", `"validations":[{"expression":"params != null"}]`, `,"validationActions":["Deny"]`, `does not have \"VERB\" permission on the object referenced by paramRef`},
		{"mutatingadmissionpolic", `"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/metadata/annotations'}]"}}]`, "", "user VERB does not have"}, // upstream's message has the verb in place of the user
	} {
		policy := func(name, param string) string {
			return `{"metadata":{"name":"` + name + `"},"spec":{"paramKind":{"apiVersion":"v1","kind":"` + param + `"},"matchConstraints":{"resourceRules":[
				{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"operations":["CREATE"]}]},` + kind.spec + `}}`
		}
		binding := func(name, policy, ref string) string {
			return `{"metadata":{"name":"` + name + `"},"spec":{"policyName":"` + policy + `","paramRef":{` + ref + `,"parameterNotFoundAction":"Deny"}` + kind.binding + `}}`
		}
		policies, bindings := kind.resource+"ies", kind.resource+"ybindings"
		must(t, h, admin, "POST", admission+policies, policy("secrets", "Secret"))
		for _, c := range []struct{ what, resource, body, want string }{
			{"what jane may get", policies, policy("own", "ConfigMap"), ""},
			{"what she may not", policies, policy("other", "Secret"), `must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)`},
			{"a kind that is not there", policies, policy("other", "Thing"), "(kind=Thing, apiVersion=v1)"},
			{"one that she may get", bindings, binding("own", "own", `"name":"a","namespace":"default"`), ""},
			{"all of them", bindings, binding("all", "own", `"selector":{}`), strings.ReplaceAll(kind.denied, "VERB", "list")},
			{"another's", bindings, binding("other", "secrets", `"name":"a","namespace":"default"`), strings.ReplaceAll(kind.denied, "VERB", "get")},
			{"of a policy that is not there", bindings, binding("none", "none", `"name":"a"`), "unable to get policy none to determine minimum required permissions"},
		} {
			code, body := send(h, "jane", "POST", admission+c.resource, c.body)
			if want := map[bool]int{true: 201, false: 422}[c.want == ""]; code != want || !strings.Contains(body, c.want) {
				t.Errorf("%s, %s: %d %s", c.resource, c.what, code, body)
			}
		}
		if code, body := send(h, "jane", "PATCH", admission+policies+"/own", `{"spec":{"paramKind":{"apiVersion":"v1","kind":"Secret"}}}`); code != 422 || !strings.Contains(body, "kind=Secret") {
			t.Errorf("a change of %s: %d %s", policies, code, body)
		}
	}
}
