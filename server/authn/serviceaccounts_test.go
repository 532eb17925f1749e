package authn_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/server/servertest"
)

const (
	issuer = "https://issuer.example.com"
	// admin is a token of the file.
	admin = "s3cret"
)

// world is a server that issues tokens and accepts them.
type world struct {
	testing.TB
	dir           string
	handler       http.Handler
	keys          *pki.TokenKeys
	authenticator *authn.Authenticator
	store         resources.Reader
	pipeline      *resources.Pipeline
	offset        atomic.Int64 // of the clock of the cache, nanoseconds
}

func newWorld(t testing.TB, tokens builtin.Tokens) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{TB: t, dir: dir}
	now := func() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }
	p, err := pki.Open(pki.Options{DataDir: dir, Names: []string{"localhost"}, Logger: servertest.Quiet, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if w.keys, err = p.TokenKeys(pki.TokenKeyOptions{Issuer: issuer}); err != nil {
		t.Fatal(err)
	}
	tokens.Generator = w.keys
	file := filepath.Join(dir, "tokens")
	if err := os.WriteFile(file, []byte(admin+`,admin,,"system:masters"`), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := &late{}
	secrets.Server, _ = servertest.New(t, func(c *server.Config) {
		w.store, w.pipeline = c.Store, c.Pipeline
		w.authenticator, err = authn.New(authn.Options{ClientCAs: x509.NewCertPool, TokenFile: file, Audiences: []string{issuer},
			Now:             now,
			ServiceAccounts: &authn.ServiceAccounts{Issuers: []string{issuer, "old"}, Keys: w.keys, Store: c.Store, Secrets: secrets}})
		if err != nil {
			t.Fatal(err)
		}
		c.Registry.SetGroups(builtin.Parts{Reader: c.Store, Authenticator: w.authenticator, Audiences: []string{issuer}, Tokens: &tokens}.Groups())
		c.Authenticator = w.authenticator.User
	})
	w.handler = secrets.Handler()
	w.create("/api/v1/namespaces", `{"metadata":{"name":"space"}}`)
	w.create("/api/v1/namespaces/space/serviceaccounts", `{"metadata":{"name":"robot"}}`)
	return w
}

type late struct{ *server.Server }

func (l *late) Secrets(namespace string) typedcorev1.SecretInterface {
	return l.Server.Secrets(namespace)
}

func (w *world) do(method, path, body, token string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a := httptest.NewRecorder()
	w.handler.ServeHTTP(a, r)
	return a
}

func (w *world) create(path, body string) (uid types.UID) {
	w.Helper()
	a := w.do("POST", path, body, admin)
	if a.Code != http.StatusCreated {
		w.Fatalf("POST %s: %d %s", path, a.Code, a.Body)
	}
	var obj metav1.PartialObjectMetadata
	if err := json.Unmarshal(a.Body.Bytes(), &obj); err != nil {
		w.Fatal(err)
	}
	return obj.UID
}

func (w *world) delete(path string) {
	w.Helper()
	if a := w.do("DELETE", path, `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`, admin); a.Code != http.StatusOK {
		w.Fatalf("DELETE %s: %d %s", path, a.Code, a.Body)
	}
}

const tokenPath = "/api/v1/namespaces/space/serviceaccounts/robot/token"

// token requests a token.
func (w *world) token(spec string) string {
	w.Helper()
	a := w.do("POST", tokenPath, `{"spec":`+spec+`}`, admin)
	var answer authenticationv1.TokenRequest
	if err := json.Unmarshal(a.Body.Bytes(), &answer); err != nil || a.Code != http.StatusCreated || answer.Status.Token == "" {
		w.Fatalf("%d %s", a.Code, a.Body)
	}
	return answer.Status.Token
}

// who returns the user of a token, nil if it is refused.
func (w *world) who(token string) *authenticationv1.UserInfo {
	w.Helper()
	a := w.do("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, token)
	if a.Code == http.StatusUnauthorized {
		return nil
	}
	var answer authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(a.Body.Bytes(), &answer); err != nil || a.Code != http.StatusCreated {
		w.Fatalf("%d %s", a.Code, a.Body)
	}
	return &answer.Status.UserInfo
}

func (w *world) mustKnow(token string) *authenticationv1.UserInfo {
	w.Helper()
	who := w.who(token)
	if who == nil {
		w.Fatal("the token is not accepted")
	}
	return who
}

// A token is valid as long as its account, and the object that it is bound to, exist: the first request after their deletion is refused.
func TestTokensEndWithWhatTheyAreBoundTo(t *testing.T) {
	const pod = `{"metadata":{"name":"bound"},"spec":{"serviceAccountName":"robot","nodeName":"node","containers":[{"name":"c","image":"i"}]}}`
	for name, c := range map[string]struct{ path, body, spec, extra string }{
		"ServiceAccount": {path: "/api/v1/namespaces/space/serviceaccounts/robot", spec: `{}`},
		"Pod": {"/api/v1/namespaces/space/pods/bound", pod, `{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"bound"}}`,
			"authentication.kubernetes.io/pod-name"},
		"Secret": {"/api/v1/namespaces/space/secrets/bound", `{"metadata":{"name":"bound"}}`,
			`{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"bound"}}`, ""},
		"Node": {"/api/v1/nodes/bound", `{"metadata":{"name":"bound"}}`, `{"boundObjectRef":{"kind":"Node","apiVersion":"v1","name":"bound"}}`,
			"authentication.kubernetes.io/node-name"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builtin.Tokens{})
			make := func() {
				if c.body != "" {
					w.create(c.path[:strings.LastIndex(c.path, "/")], c.body)
				}
			}
			make()
			token := w.token(c.spec)
			for range 2 {
				who := w.mustKnow(token)
				groups := sets.New(who.Groups...)
				if who.Username != "system:serviceaccount:space:robot" || !groups.Equal(sets.New(user.AllAuthenticated, serviceaccount.AllServiceAccountsGroup,
					serviceaccount.MakeNamespaceGroupName("space"))) || who.UID == "" || len(who.Extra["authentication.kubernetes.io/credential-id"]) != 1 {
					t.Errorf("is %+v", who)
				}
				if c.extra != "" && strings.Join(who.Extra[c.extra], "") != "bound" {
					t.Errorf("is %+v", who)
				}
			}
			w.delete(c.path)
			if who := w.who(token); who != nil {
				t.Errorf("after the %s has gone, is %+v", name, who)
			}
			make() // another object with the name
			if who := w.who(token); name != "ServiceAccount" && who != nil {
				t.Errorf("with another %s of the name, is %+v", name, who)
			}
		})
	}
}

// A token expires 5 seconds after its end; upstream accepts it for a minute.
func TestTokensExpire(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	token := w.token(`{"expirationSeconds":600}`)
	w.mustKnow(token)
	w.offset.Store(int64(604 * time.Second))
	w.mustKnow(token)
	w.offset.Store(int64(606 * time.Second))
	if who := w.who(token); who != nil {
		t.Errorf("after its end, is %+v", who)
	}
}

// Signatures of a removed key are refused once its file has been read again, a second later, also where the result for a token is cached.
func TestKeysThatAreTakenAway(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	ring := pki.NewKeyRing(w.dir, nil)
	keys, err := ring.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := w.token(`{"expirationSeconds":600}`)
	w.mustKnow(old)
	added, err := ring.Add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Sign(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	w.offset.Add(int64(10 * time.Second))
	newer := w.token(`{"expirationSeconds":600}`)
	w.mustKnow(old)
	w.mustKnow(newer)
	if err := ring.Remove(t.Context(), keys[0].ID); err != nil {
		t.Fatal(err)
	}
	w.offset.Add(int64(time.Second))
	if who := w.who(old); who != nil {
		t.Errorf("with a key that was taken away, is %+v", who)
	}
	w.mustKnow(newer)
	for _, err := range []error{ring.Remove(t.Context(), added), ring.Remove(t.Context(), keys[0].ID), ring.Sign(t.Context(), "x")} {
		if err == nil {
			t.Error("there is no error")
		}
	}
}

// TokenRequests follow kube-apiserver's rules, with its messages.
func TestTokenRequests(t *testing.T) {
	w := newWorld(t, builtin.Tokens{MaxExpiration: 2 * time.Hour, ExtendExpiration: true})
	w.create("/api/v1/namespaces/space/pods", `{"metadata":{"name":"other"},"spec":{"serviceAccountName":"else","containers":[{"name":"c","image":"i"}]}}`)
	uid := w.create("/api/v1/namespaces/space/pods", `{"metadata":{"name":"own"},"spec":{"serviceAccountName":"robot","nodeName":"gone","containers":[{"name":"c","image":"i"}]}}`)
	for _, c := range []struct {
		body, want string
		code       int
	}{
		{`{"spec":{"expirationSeconds":60}}`, `TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes`, 422},
		{`{"metadata":{"name":"x"}}`, `metadata.name: Invalid value: \"x\": must match the service account name if specified`, 422},
		{`{"metadata":{"uid":"x"}}`, `the UID in the token request (x) does not match the UID of the service account`, 409},
		{`{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"none"}}}`, `pods \"none\" not found`, 404},
		{`{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1"}}}`, `"message":"Name parameter required."`, 400},
		{`{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"other"}}}`, `cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.`, 400},
		{`{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"own","uid":"x"}}}`, `the UID in the bound object reference (x) does not match the UID in record (`, 409},
		{`{"spec":{"boundObjectRef":{"kind":"ConfigMap","apiVersion":"v1","name":"x"}}}`, `cannot bind token to object of type /v1, Kind=ConfigMap`, 400},
		{`{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"own","uid":"` + string(uid) + `"}}}`, `"uid":"` + string(uid), 201},
	} {
		a := w.do("POST", tokenPath, c.body, admin)
		want := c.want
		if c.code == 409 {
			want = strings.TrimSuffix(want, " (")
		}
		if a.Code != c.code || !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s: %d %s, want %d %s", c.body, a.Code, a.Body, c.code, c.want)
		}
	}
	if a := w.do("POST", strings.Replace(tokenPath, "robot", "none", 1), `{}`, admin); a.Code != 404 || !strings.Contains(a.Body.String(), `serviceaccounts \"none\" not found`) {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	a := w.do("POST", tokenPath, `{"spec":{"expirationSeconds":86400}}`, admin)
	if h := a.Header().Get("Warning"); !strings.Contains(h, "requested expiration of 86400 seconds shortened to 7200 seconds") || !strings.Contains(a.Body.String(), `"expirationSeconds":7200`) {
		t.Errorf("%q %s", h, a.Body)
	}
	// A token that admission requests for a Pod is valid for a year, and states an hour.
	extended := w.token(`{"expirationSeconds":3607,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"own"}}`)
	claims := claimsOf(t, extended)
	if life := claims.Exp - claims.Iat; life != tokens.ExpirationExtensionSeconds || claims.Kubernetes.Node.Name != "gone" {
		t.Errorf("lives %d seconds on %q", life, claims.Kubernetes.Node.Name)
	}
}

type claims struct {
	Iss        string
	Aud        []string
	Exp, Iat   int64
	Kubernetes struct {
		Node      struct{ Name string }
		WarnAfter int64
	} `json:"kubernetes.io"`
}

func claimsOf(t *testing.T, token string) (c claims) {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A token is valid for its audiences, and a TokenReview says for which.
func TestAudiences(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	foreign, own := w.token(`{"audiences":["vault"]}`), w.token(`{}`)
	if who := w.who(foreign); who != nil {
		t.Errorf("a token for others is taken: %+v", who)
	}
	w.mustKnow(own)
	review := func(token, audiences string) authenticationv1.TokenReviewStatus {
		a := w.do("POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"`+token+`","audiences":`+audiences+`}}`, admin)
		var r authenticationv1.TokenReview
		if err := json.Unmarshal(a.Body.Bytes(), &r); err != nil || a.Code != http.StatusCreated {
			t.Fatalf("%d %s", a.Code, a.Body)
		}
		return r.Status
	}
	for _, c := range []struct {
		token, audiences string
		want             string // "": refused
	}{
		{own, `null`, issuer}, {own, `["vault"]`, ""}, {own, `["x","` + issuer + `"]`, issuer},
		{foreign, `["vault","x"]`, "vault"}, {foreign, `null`, ""}, {admin, `null`, issuer}, {admin, `["vault"]`, ""}, {"x", `null`, ""}, {own + "x", `null`, ""},
	} {
		for range 2 { // the second result is cached
			got := review(c.token, c.audiences)
			if got.Authenticated != (c.want != "") || strings.Join(got.Audiences, ",") != c.want {
				t.Errorf("%s for %s: %+v", c.token, c.audiences, got)
			}
		}
	}
}
