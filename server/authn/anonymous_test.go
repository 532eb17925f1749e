package authn

import (
	"crypto/x509"
	"net/http"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// A TokenReview of a token that is blank or begins with a space finds system:anonymous for the audiences that it asks for, as kube-apiserver v1.37.1
// answers where requests without credentials are allowed. A request with such a token has no user here: the server decides about these by their path.
func TestReviewsOfBlankTokens(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		a, err := New(Options{ClientCAs: func() *x509.CertPool { return nil }, Audiences: []string{"here"}, Anonymous: allowed})
		if err != nil {
			t.Fatal(err)
		}
		for token, blank := range map[string]bool{" ": true, " x": true, "x": false, "x ": false} {
			r := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(authenticator.WithAudiences(t.Context(), []string{"a", "b"}))
			response, ok, err := a.AuthenticateRequest(r)
			if ok != (blank && allowed) || (err == nil) != blank {
				t.Errorf("%q: %t, %v", token, ok, err)
			}
			if ok && (response.User.GetName() != "system:anonymous" || !slices.Equal(response.User.GetGroups(), []string{"system:unauthenticated"}) ||
				!slices.Equal(response.Audiences, []string{"a", "b"})) {
				t.Errorf("%q is for %v, of %v", token, response.Audiences, response.User)
			}
			if who, ok, _ := a.User(r); ok {
				t.Errorf("a request with %q is one of %v", token, who)
			}
		}
	}
}
