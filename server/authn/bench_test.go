package authn_test

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/apis/apiserver"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/authn"
)

// BenchmarkToken shows that a request with a token costs little more than one with a certificate, of whatever kind the token is.
func BenchmarkToken(b *testing.B) {
	w := newWorld(b, builtin.Tokens{})
	w.create("/api/v1/namespaces/space/pods", `{"metadata":{"name":"bound"},"spec":{"serviceAccountName":"robot","nodeName":"node","containers":[{"name":"c","image":"i"}]}}`)
	store, ok := w.store.(resources.Store)
	if !ok {
		b.Fatalf("%T", w.store)
	}
	bootstrapSecret(b, store, "abcdef", time.Now().Add(time.Hour))
	p := newProvider(b)
	prefix := ""
	oidc := authn.RemoteOptions{SigningAlgorithms: []string{"RS256"}, JWT: &apiserver.JWTAuthenticator{
		Issuer:        apiserver.Issuer{URL: p.URL, Audiences: []string{"rowlock"}, CertificateAuthority: authority(p.Server)},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Prefix: &prefix, Claim: "sub"}}}}
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{Username: "hooked"}}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	jane := p.token(b, map[string]any{"sub": "jane", "email": "jane@example.com", "name": "Jane Doe", "groups": []string{"team", "all", "others"}, "nonce": "0123456789abcdef"})
	for name, c := range map[string]struct {
		token  string
		remote authn.RemoteOptions
	}{
		"ServiceAccount": {w.token(`{}`), authn.RemoteOptions{}},
		"Pod":            {w.token(`{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"bound"}}`), authn.RemoteOptions{}},
		"OpenID":         {jane, oidc},
		"webhook": {"an opaque token of another kind",
			authn.RemoteOptions{WebhookConfigFile: hookFile(b, hook), WebhookVersion: "v1", WebhookCacheTTL: time.Hour}},
		"bootstrap": {"abcdef.0123456789abcdef", authn.RemoteOptions{Bootstrap: true, Store: store}},
	} {
		b.Run(name, func(b *testing.B) {
			by, err := authn.New(authn.Options{ClientCAs: x509.NewCertPool, Audiences: []string{issuer}, Remote: remote(b, c.remote), Issued: authn.NewIssuedTokens(resources.NewRows(store), nil),
				ServiceAccounts: &authn.ServiceAccounts{Issuers: []string{issuer}, Keys: w.keys, Store: store, Secrets: &late{}}})
			if err != nil {
				b.Fatal(err)
			}
			r := httptest.NewRequest("GET", "/api", nil)
			ask := func() error {
				r.Header["Authorization"] = []string{"Bearer " + c.token}
				_, _, err := by.User(r)
				return err
			}
			untilIs(b, func() string { // issuers are discovered in the background
				if err := ask(); err != nil {
					return err.Error()
				}
				return ""
			}, "")
			b.ReportAllocs()
			for b.Loop() {
				if err := ask(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
