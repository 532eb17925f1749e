package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// provider is an OpenID Connect issuer whose key changes.
type provider struct {
	*httptest.Server
	keys [2]*ecdsa.PrivateKey
	key  atomic.Int32 // the index of the signing key
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	i := &provider{}
	for n := range i.keys {
		var err error
		if i.keys[n], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := any(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}})
		if r.URL.Path == "/keys" {
			n := i.key.Load()
			answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.keys[n].Public(), KeyID: fmt.Sprint(n), Algorithm: "ES256", Use: "sig"}}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(i.Close)
	return i
}

// review returns a TokenReview of the issuer's token for jane.
func (i *provider) review(t *testing.T) *authenticationv1.TokenReview {
	t.Helper()
	return reviewOf(i.token(t, map[string]any{"sub": "jane"}))
}

func reviewOf(token string) *authenticationv1.TokenReview {
	return &authenticationv1.TokenReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}, Spec: authenticationv1.TokenReviewSpec{Token: token}}
}

// token returns a token with claims besides those that every token has.
func (i *provider) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	n := i.key.Load()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.keys[n], KeyID: fmt.Sprint(n)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{"iss": i.URL, "aud": "rowlock", "exp": time.Now().Add(time.Hour).Unix()}).Claims(claims).CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// authority writes a file with the authority of the provider's certificate.
func (i *provider) authority(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Requests that are in flight when the server is told to stop are answered as before, even if that needs other servers: an issuer whose keys
// have changed.
func TestIssuersUntilTheEnd(t *testing.T) {
	oidc := newProvider(t)
	p := start(t, "--data-dir", t.TempDir(), "--oidc-issuer-url", oidc.URL, "--oidc-client-id", "rowlock", "--oidc-ca-file", oidc.authority(t), "--oidc-signing-algs", "ES256")
	for answer := (&authenticationv1.TokenReview{}); !answer.Status.Authenticated; { // the issuer is discovered in the background
		var err error
		if answer, err = p.client(t).AuthenticationV1().TokenReviews().Create(t.Context(), oidc.review(t), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	body, sends := io.Pipe()
	answered := make(chan string, 1)
	go func() { answered <- post(t.Context(), p, "/apis/authentication.k8s.io/v1/tokenreviews", body) }()
	// The server asks for the first byte when it is about to read the body.
	if _, err := sends.Write([]byte(" ")); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	untilRefused(t, strings.TrimPrefix(config.Host, "https://"))
	oidc.key.Store(1)
	if err := json.NewEncoder(sends).Encode(oidc.review(t)); err != nil {
		t.Fatal(err)
	}
	sends.Close()
	if got := <-answered; !strings.Contains(got, `"authenticated":true`) {
		t.Error(got)
	}
	if code := <-p.ended; code != 0 {
		t.Errorf("ended with %d: %s", code, p.stderr.String())
	}
}

// untilRefused returns when an address accepts no more connections. It only connects: the request in flight has to be answered within the
// time limit of a shutdown.
func untilRefused(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Fatal("connections are accepted for ever")
}

// post sends a body when the server asks for it (100 Continue), and returns the answer.
func post(ctx context.Context, p *process, path string, body io.Reader) string {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return err.Error()
	}
	secured, err := rest.TLSConfigFor(config)
	if err != nil {
		return err.Error()
	}
	client := &http.Transport{TLSClientConfig: secured, ExpectContinueTimeout: time.Hour}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+path, body)
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Expect", "100-continue")
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
