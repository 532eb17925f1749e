package server_test

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// Tokens for webhooks are issued to ServiceAccounts with the right to attest the reviewed resources, for webhooks that review these. The expected
// responses are those of upstream's test/integration/auth (TestServiceAccountTokenAttestations).
func TestTokensForWebhooks(t *testing.T) {
	h := guarded(t, "RBAC")
	for _, c := range []struct{ resource, kind string }{{"validatingwebhookconfigurations", "ValidatingWebhookConfiguration"}, {"mutatingwebhookconfigurations", "MutatingWebhookConfiguration"}} {
		must(t, h, admin, "POST", "/apis/admissionregistration.k8s.io/v1/"+c.resource, `{"metadata":{"name":"hooks"},"webhooks":[
			{"name":"a.example.com","clientConfig":{"url":"https://hook.test"},"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"operations":["CREATE"],"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"]}]},
			{"name":"b.example.com","clientConfig":{"service":{"namespace":"n","name":"s","path":"/p"}},"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"operations":["CREATE"],"apiGroups":["*"],"apiVersions":["v1"],"resources":["deployments"]}]}]}`)
	}
	for _, name := range []string{"attester", "all", "nobody"} {
		must(t, h, admin, "POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"`+name+`"}}`)
	}
	for name, groups := range map[string]string{"attester": `"apps","batch"`, "all": `"*"`} {
		must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", name, `{"apiGroups":["authentication.k8s.io"],"resources":["admissionReviewAPIGroups"],"resourceNames":[`+groups+`],"verbs":["attest"]}`))
		must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", name, "ClusterRole", name, "system:serviceaccount:default:"+name))
	}
	ask := func(account, kind, name, uid, audience, group string) (int, string) {
		return send(h, admin, "POST", "/api/v1/namespaces/default/serviceaccounts/"+account+"/token", `{"spec":{"audiences":["`+audience+`"],"expirationSeconds":3600,
			"attestations":{"admissionReviewAPIGroups":["`+group+`"]},
			"boundObjectRef":{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+`","name":"`+name+`","uid":"`+uid+`"}}}`)
	}
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		if code, body := ask("attester", kind, "hooks", "", "https://hook.test", "apps"); code != 400 || !strings.Contains(body,
			"cannot bind token to object of type admissionregistration.k8s.io/v1, Kind="+kind+" (feature gate APIServerWebhookAuthenticationToken is disabled)") {
			t.Errorf("without the gate: %d %s", code, body)
		}
	}
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.APIServerWebhookAuthenticationToken, true)
	const denied = `serviceaccounts/token \"attester\" is forbidden: token request denied`
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		for _, c := range []struct {
			account, name, uid, audience, group string
			code                                int
			message                             string
		}{
			{"attester", "hooks", "", "https://hook.test", "apps", 201, `"expirationSeconds":600`},
			{"attester", "hooks", "", "https://s.n.svc:443/p", "batch", 201, `"token":"t"`},
			{"all", "hooks", "", "https://anywhere.test", "*", 201, `"token":"t"`},
			{"attester", "hooks", "", "https://s.n.svc:443/p/", "batch", 403, denied},
			{"attester", "hooks", "", "https://hook.test", "batch", 403, denied},
			{"attester", "hooks", "", "https://elsewhere.test", "apps", 403, denied},
			{"attester", "none", "", "https://hook.test", "apps", 403, denied},
			{"attester", "hooks", "wrong", "https://hook.test", "apps", 409, `Operation cannot be fulfilled on ` + kind + `.admissionregistration.k8s.io \"hooks\": the UID in the bound object reference (wrong) does not match`},
			{"attester", "hooks", "", "api", "apps", 400, "api server audiences are invalid for webhook token requests"},
			{"attester", "hooks", "", "https://hook.test", "*", 403, `admissionReviewAPIGroups.authentication.k8s.io \"*\" is forbidden: User \"system:serviceaccount:default:attester\" cannot attest resource \"admissionReviewAPIGroups\" in API group \"authentication.k8s.io\" at the cluster scope`},
			{"nobody", "hooks", "", "https://hook.test", "apps", 403, `User \"system:serviceaccount:default:nobody\" cannot attest resource`},
			{"attester", "hooks", "", "https://hook.test", "", 422, `spec.attestations[admissionReviewAPIGroups][0]: Invalid value: \"\": may not be an empty string`},
		} {
			if code, body := ask(c.account, kind, c.name, c.uid, c.audience, c.group); code != c.code || !strings.Contains(body, c.message) {
				t.Errorf("%s, %q of %s for %q: %d %s", kind, c.group, c.name, c.audience, code, body)
			}
		}
	}
}
