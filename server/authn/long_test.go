package authn_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/apis/apiserver"

	"github.com/rowlock/rowlock/resources/bounded"
	"github.com/rowlock/rowlock/server/authn"
)

// A webhook whose answer exceeds the limit has authenticated nobody.
func TestLongAnswersOfTokenWebhook(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{Username: "hooked"}}
		_ = json.NewEncoder(w).Encode(review)
		fmt.Fprint(w, strings.Repeat(" ", bounded.MostBytes))
	}))
	defer hook.Close()
	r := remote(t, authn.RemoteOptions{WebhookConfigFile: hookFile(t, hook), WebhookVersion: "v1"})
	if got := ask(r, "a token"); !strings.HasPrefix(got, "nobody") || !strings.Contains(got, bounded.ErrTooLong.Error()) {
		t.Errorf("is %s", got)
	}
}

// An issuer whose keys exceed the limit of an answer has no keys.
func TestLongAnswersOfIssuers(t *testing.T) {
	p := newProvider(t)
	p.long.Store(true)
	prefix := ""
	r := remote(t, authn.RemoteOptions{SigningAlgorithms: []string{"RS256"}, JWT: &apiserver.JWTAuthenticator{
		Issuer:        apiserver.Issuer{URL: p.URL, Audiences: []string{"rowlock"}, CertificateAuthority: authority(p.Server)},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Prefix: &prefix, Claim: "sub"}}}})
	token := p.token(t, map[string]any{"sub": "jane"})
	untilIs(t, func() string {
		got := ask(r, token)
		if strings.Contains(got, bounded.ErrTooLong.Error()) {
			return "nobody"
		}
		return got
	}, "nobody")
}
