package authn_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"

	"github.com/rowlock/rowlock/resources/bounded"
)

// provider is an OpenID Connect issuer.
type provider struct {
	*httptest.Server
	signer jose.Signer
	// silence makes it answer with errors.
	silence atomic.Bool
	// long makes its answer with keys exceed the limit.
	long     atomic.Bool
	requests atomic.Int64
}

// asked waits until the provider has received a request.
func (p *provider) asked(t *testing.T) {
	t.Helper()
	untilIs(t, func() string { return fmt.Sprint(p.requests.Load() > 0) }, "true")
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{}
	if p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil); err != nil {
		t.Fatal(err)
	}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		if p.silence.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer := any(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"}})
		if r.URL.Path == "/keys" {
			answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
		if p.long.Load() && r.URL.Path == "/keys" {
			fmt.Fprint(w, strings.Repeat(" ", bounded.MostBytes))
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// authority returns the authority of the provider, as PEM.
func authority(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func (p *provider) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	token, err := jwt.Signed(p.signer).Claims(map[string]any{"iss": p.URL, "aud": "rowlock", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}).Claims(claims).CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
