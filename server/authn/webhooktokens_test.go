package authn_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/rowlock/rowlock/resources/builtin"
)

// A webhook that reviews a token gets its attestation, until the configuration that the token is bound to is gone.
func TestTokensForWebhooksAreReviewed(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.APIServerWebhookAuthenticationToken, true)
	w := newWorld(t, builtin.Tokens{})
	const hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	uid := w.create(hooks, `{"metadata":{"name":"hooks"},"webhooks":[{"name":"a.example.com","clientConfig":{"url":"https://hook.test"},"sideEffects":"None","admissionReviewVersions":["v1"],
		"rules":[{"operations":["CREATE"],"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"]}]}]}`)
	token := w.token(`{"audiences":["https://hook.test"],"attestations":{"admissionReviewAPIGroups":["apps"]},
		"boundObjectRef":{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","name":"hooks"}}`)
	review := func() (status authenticationv1.TokenReviewStatus) {
		t.Helper()
		a := w.do("POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"`+token+`","audiences":["https://hook.test"]}}`, admin)
		var answer authenticationv1.TokenReview
		if err := json.Unmarshal(a.Body.Bytes(), &answer); err != nil || a.Code != http.StatusCreated {
			t.Fatalf("%d %s", a.Code, a.Body)
		}
		return answer.Status
	}
	got := review()
	delete(got.User.Extra, "authentication.kubernetes.io/credential-id")
	if diff := cmp.Diff(map[string]authenticationv1.ExtraValue{
		"authentication.kubernetes.io/validatingwebhookconfiguration-name":  {"hooks"},
		"authentication.kubernetes.io/validatingwebhookconfiguration-uid":   {string(uid)},
		"attestation.authentication.kubernetes.io/admissionReviewAPIGroups": {"apps"},
	}, got.User.Extra); !got.Authenticated || diff != "" {
		t.Errorf("%v %s (-want +got):\n%s", got.Authenticated, got.Error, diff)
	}
	if w.who(token) != nil {
		t.Error("the token is good for this server, too")
	}
	w.delete(hooks + "/hooks")
	if got := review(); got.Authenticated {
		t.Error("the token is good without the configuration")
	}
}

// A review of a bad token has the errors in kube-apiserver's order.
func TestReviewsOfBadTokens(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	for token, want := range map[string]string{
		"nonsense":                         "invalid bearer token",
		w.token(`{"audiences":["other"]}`): `[invalid bearer token, token audiences ["other"] is invalid for the target audiences ["https://issuer.example.com"]]`,
	} {
		a := w.do("POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"`+token+`"}}`, admin)
		var answer authenticationv1.TokenReview
		if err := json.Unmarshal(a.Body.Bytes(), &answer); err != nil || answer.Status.Error != want {
			t.Errorf("%d %s, want %s", a.Code, a.Body, want)
		}
	}
}
