package authn_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/apis/authentication"

	"github.com/rowlock/rowlock/resources/builtin"
)

// lookout is validating admission that records the TokenRequests that it sees.
type lookout struct {
	seen []*authentication.TokenRequest
	// meanwhile is called during the admission of a request. Nil: nothing is.
	meanwhile func()
}

func (*lookout) Handles(admission.Operation) bool { return true }

func (l *lookout) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if r, ok := a.GetObject().(*authentication.TokenRequest); ok {
		l.seen = append(l.seen, r.DeepCopy())
		if l.meanwhile != nil {
			l.meanwhile()
		}
	}
	return nil
}

// Validating admission sees the token that will be issued, with its audiences and its user. It does not see invalid requests.
func TestAdmissionSeesWholeTokenRequests(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	var l lookout
	w.pipeline.Use(&l, nil)
	if a := w.do("POST", tokenPath, `{"status":{"token":"x"}}`, admin); a.Code != http.StatusCreated {
		t.Fatalf("%d %s", a.Code, a.Body)
	}
	if len(l.seen) != 1 {
		t.Fatalf("admission saw %d requests", len(l.seen))
	}
	if r := l.seen[0]; !slices.Equal(r.Spec.Audiences, []string{issuer}) || r.Name != "robot" || r.Namespace != "space" || r.UID == "" ||
		r.CreationTimestamp.IsZero() || r.Status.Token != "" {
		t.Errorf("admission saw %+v", r)
	}
	if a := w.do("POST", tokenPath, `{"spec":{"expirationSeconds":60}}`, admin); a.Code != http.StatusUnprocessableEntity || len(l.seen) != 1 {
		t.Errorf("%d %s; admission saw %d", a.Code, a.Body, len(l.seen))
	}
}

// If an account is deleted and recreated during admission, no token is issued: neither the client nor admission has seen the new account.
func TestAccountMadeAgainMeanwhile(t *testing.T) {
	const accounts = "/api/v1/namespaces/space/serviceaccounts"
	for name, c := range map[string]struct {
		gate bool
		ask  func(uid types.UID) types.UID
	}{
		"its UID is asked for":     {true, func(uid types.UID) types.UID { return uid }},
		"none is asked for":        {true, func(types.UID) types.UID { return "" }},
		"another one is asked for": {false, func(types.UID) types.UID { return "of-nobody" }},
	} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, genericfeatures.TokenRequestServiceAccountUIDValidation, c.gate)
			w := newWorld(t, builtin.Tokens{})
			w.delete(accounts + "/robot")
			seen := w.create(accounts, `{"metadata":{"name":"robot"}}`)
			body := fmt.Sprintf(`{"metadata":{"uid":%q}}`, c.ask(seen))
			var l lookout
			w.pipeline.Use(&l, nil)
			if a := w.do("POST", tokenPath, body, admin); a.Code != http.StatusCreated {
				t.Fatalf("before: %d %s", a.Code, a.Body)
			}
			var present types.UID
			l.meanwhile = func() {
				w.delete(accounts + "/robot")
				present = w.create(accounts, `{"metadata":{"name":"robot"}}`)
			}
			a := w.do("POST", tokenPath, body, admin)
			want := fmt.Sprintf("the UID in the token request (%s) does not match the UID of the service account (%s)", seen, present)
			if a.Code != http.StatusConflict || !strings.Contains(a.Body.String(), want) {
				t.Errorf("%d %s, want %q", a.Code, a.Body, want)
			}
		})
	}
}

// A path that cannot name an account gets kube-apiserver's error.
func TestTokenRequestsOfNobody(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	for path, want := range map[string]string{
		"/api/v1/namespaces//serviceaccounts/robot/token":      "Namespace parameter required.",
		"/api/v1/namespaces/space/serviceaccounts/a%25/token":  `Name parameter invalid: \"a%\": may not contain '%'`,
		"/api/v1/namespaces/space/serviceaccounts/other/token": `serviceaccounts \"other\" not found`,
	} {
		if a := w.do("POST", path, "{}", admin); !strings.Contains(a.Body.String(), `"message":"`+want+`"`) {
			t.Errorf("%s: %d %s, want %s", path, a.Code, a.Body, want)
		}
	}
}
