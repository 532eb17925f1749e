package authn_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/authentication"

	"github.com/rowlock/rowlock/resources/builtin"
)

// lookout is validating admission that keeps the TokenRequests that it sees.
type lookout struct {
	seen []*authentication.TokenRequest
}

func (*lookout) Handles(admission.Operation) bool { return true }

func (l *lookout) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if r, ok := a.GetObject().(*authentication.TokenRequest); ok {
		l.seen = append(l.seen, r.DeepCopy())
	}
	return nil
}

// Validating admission decides about the token that will be made: for which audiences, and for whom. What is invalid it does not see.
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
