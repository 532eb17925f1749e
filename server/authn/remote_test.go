package authn_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// ask returns the user of a token according to a Remote, name and groups, or the error.
func ask(r *authn.Remote, token string) string {
	a, err := authn.New(authn.Options{Remote: r, ClientCAs: x509.NewCertPool, Audiences: []string{issuer}})
	if err != nil {
		return err.Error()
	}
	request := httptest.NewRequest("GET", "/", nil)
	request.Header.Set("Authorization", "Bearer "+token)
	who, ok, err := a.User(request)
	if err != nil || !ok {
		return fmt.Sprint("nobody: ", err)
	}
	return who.GetName() + " " + strings.Join(who.GetGroups(), ",")
}

// until repeats ask until the answer is as expected: issuers are discovered in the background.
func until(t testing.TB, r *authn.Remote, token, want string) {
	t.Helper()
	untilIs(t, func() string { return ask(r, token) }, want)
}

func untilNobody(t *testing.T, r *authn.Remote, token string) {
	t.Helper()
	untilIs(t, func() string {
		who, _, _ := strings.Cut(ask(r, token), ": ")
		return who
	}, "nobody")
}

func untilIs(t testing.TB, ask func() string, want string) {
	t.Helper()
	var got string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if got = ask(); got == want {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("got %q, want %q", got, want)
}

func remote(t testing.TB, o authn.RemoteOptions) *authn.Remote {
	t.Helper()
	o.Audiences, o.Issuers, o.Logger = []string{issuer}, []string{issuer}, servertest.Quiet
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	r, err := authn.NewRemote(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	go r.Run(ctx)
	return r
}

// A file configures issuers, with mappings and rules in CEL. A second one is added while the server runs, and the first one removed.
func TestAuthenticationConfiguration(t *testing.T) {
	t.Parallel() // the file is read every five seconds
	first, second := newProvider(t), newProvider(t)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	write := func(providers ...*provider) {
		t.Helper()
		config := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n"
		for _, p := range providers {
			config += fmt.Sprintf("- issuer: {url: %q, audiences: [rowlock], certificateAuthority: %q}\n", p.URL, authority(p.Server)) +
				"  claimMappings:\n    username: {expression: \"'oidc:' + claims.sub\"}\n    groups: {expression: claims.roles}\n" +
				"  claimValidationRules: [{expression: claims.hd == 'example.com', message: not ours}]\n" +
				"  userValidationRules: [{expression: \"!user.username.startsWith('oidc:system:')\", message: reserved}]\n"
		}
		if err := os.WriteFile(file+".new", []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	r := remote(t, authn.RemoteOptions{ConfigFile: file})
	claims := func(email, hd string) map[string]any {
		return map[string]any{"sub": email, "hd": hd, "roles": []string{"dev"}}
	}
	good := first.token(t, claims("jane@example.com", "example.com"))
	until(t, r, good, "oidc:jane@example.com dev,system:authenticated")
	ending := claims("ending@example.com", "example.com")
	var short string
	untilIs(t, func() string { // on a slow machine a token may have expired before it is used, so each attempt has a new one
		ending["exp"] = time.Now().Add(10 * time.Second).Unix() // upstream uses the real clock
		short = first.token(t, ending)
		return ask(r, short)
	}, "oidc:ending@example.com dev,system:authenticated")
	early := second.token(t, claims("jane@example.com", "example.com"))
	for _, bad := range []string{
		first.token(t, claims("jane@example.com", "example.org")), first.token(t, claims("system:admin", "example.com")), early, good + "x",
	} {
		if got := ask(r, bad); !strings.HasPrefix(got, "nobody") {
			t.Errorf("is %s", got)
		}
	}
	untilNobody(t, r, short)
	write(second)
	until(t, r, early, "oidc:jane@example.com dev,system:authenticated")
	until(t, r, first.token(t, claims("new@example.com", "example.com")), ask(r, "a.b.c"))
}

// An issuer that is removed from the file is no longer trusted, although another one, which stays, does not answer.
func TestIssuerTakenOut(t *testing.T) {
	t.Parallel()
	good, down := newProvider(t), newProvider(t)
	down.Close()
	c := configFile(filepath.Join(t.TempDir(), "authentication.yaml"))
	c.write(t, good.entry(""), down.entry(""))
	r := remote(t, authn.RemoteOptions{ConfigFile: string(c)})
	token := good.token(t, map[string]any{"sub": "jane"})
	until(t, r, token, "jane system:authenticated")
	c.write(t, down.entry(""))
	untilNobody(t, r, token)
}

// configFile is the path of an AuthenticationConfiguration.
type configFile string

func (c configFile) write(t *testing.T, entries ...string) {
	t.Helper()
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n" + strings.Join(entries, "")
	if err := os.WriteFile(string(c)+".new", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(string(c)+".new", string(c)); err != nil {
		t.Fatal(err)
	}
}

// entry returns the provider's entry in such a file, with a prefix for the names of its users.
func (p *provider) entry(prefix string) string {
	return fmt.Sprintf("- issuer: {url: %q, audiences: [rowlock], certificateAuthority: %q}\n  claimMappings: {username: {claim: sub, prefix: %q}}\n",
		p.URL, authority(p.Server), prefix)
}

// Removing or changing an issuer in the file does not wait for issuers that do not answer: neither for one that is new in the same
// change, nor for one that was added by an earlier change. An unchanged issuer is trusted throughout.
func TestSilentIssuers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, c configFile, stays, goes, silent *provider) (want string){
		"taken out when another comes": func(t *testing.T, c configFile, stays, _, silent *provider) string {
			c.write(t, stays.entry(""), silent.entry(""))
			return "nobody"
		},
		"taken out after another came": func(t *testing.T, c configFile, stays, goes, silent *provider) string {
			c.write(t, stays.entry(""), goes.entry(""), silent.entry(""))
			silent.asked(t)
			c.write(t, stays.entry(""), silent.entry(""))
			return "nobody"
		},
		"changed, and silent itself": func(t *testing.T, c configFile, stays, goes, _ *provider) string {
			goes.Close()
			c.write(t, stays.entry(""), goes.entry("oidc:"))
			return "nobody"
		},
		"changed when another comes": func(t *testing.T, c configFile, stays, goes, silent *provider) string {
			c.write(t, stays.entry(""), silent.entry(""), goes.entry("oidc:"))
			return "oidc:jane system:authenticated"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stays, goes, silent := newProvider(t), newProvider(t), newProvider(t)
			silent.silence.Store(true)
			c := configFile(filepath.Join(t.TempDir(), "authentication.yaml"))
			c.write(t, stays.entry(""), goes.entry(""))
			r := remote(t, authn.RemoteOptions{ConfigFile: string(c)})
			jane, joe := goes.token(t, map[string]any{"sub": "jane"}), stays.token(t, map[string]any{"sub": "joe"})
			until(t, r, jane, "jane system:authenticated")
			until(t, r, joe, "joe system:authenticated")
			want := change(t, c, stays, goes, silent)
			untilIs(t, func() string {
				if got := ask(r, joe); got != "joe system:authenticated" {
					t.Errorf("the issuer that stays: %s", got)
				}
				who, _, _ := strings.Cut(ask(r, jane), ": ")
				return who
			}, want)
		})
	}
}

// The flags have the same effect as a file.
func TestOneIssuer(t *testing.T) {
	p := newProvider(t)
	prefix := "oidc:"
	r := remote(t, authn.RemoteOptions{SigningAlgorithms: []string{"RS256"}, JWT: &apiserver.JWTAuthenticator{
		Issuer:        apiserver.Issuer{URL: p.URL, Audiences: []string{"rowlock"}, CertificateAuthority: authority(p.Server)},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Prefix: &prefix, Claim: "sub"}}}})
	until(t, r, p.token(t, map[string]any{"sub": "jane"}), "oidc:jane system:authenticated")
	if got := ask(r, p.token(t, map[string]any{"sub": "jane", "aud": "other"})); !strings.HasPrefix(got, "nobody") {
		t.Errorf("a token for others is %s", got)
	}
}

// hookFile writes a kubeconfig of a webhook.
func hookFile(t testing.TB, hook *httptest.Server) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["hook"] = &clientcmdapi.Cluster{Server: hook.URL, CertificateAuthorityData: []byte(authority(hook))}
	config.Contexts["hook"], config.CurrentContext = &clientcmdapi.Context{Cluster: "hook"}, "hook"
	file := filepath.Join(t.TempDir(), "webhook")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// A webhook gets a TokenReview of the version that is configured, with the audiences of this server.
func TestTokenWebhook(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) { checkTokenWebhook(t, version) })
	}
}

func checkTokenWebhook(t *testing.T, version string) {
	asked := 0
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview // v1beta1 has the same members
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		if want := "authentication.k8s.io/" + version; review.APIVersion != want || review.Kind != "TokenReview" || !slices.Equal(review.Spec.Audiences, []string{issuer}) {
			t.Errorf("was sent %s %s for %q", review.APIVersion, review.Kind, review.Spec.Audiences)
		}
		asked++
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token != "bad", Audiences: review.Spec.Audiences,
			User: authenticationv1.UserInfo{Username: "hooked", Groups: []string{"dev"}}}
		if review.Spec.Token == "vault's" {
			review.Status.Audiences = []string{"vault"}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	r := remote(t, authn.RemoteOptions{WebhookConfigFile: hookFile(t, hook), WebhookVersion: version, WebhookCacheTTL: time.Minute})
	for range 2 {
		if got := ask(r, "good"); got != "hooked dev,system:authenticated" {
			t.Errorf("is %s", got)
		}
	}
	if got := ask(r, "bad"); !strings.HasPrefix(got, "nobody") || asked != 2 {
		t.Errorf("is %s, asked %d times", got, asked)
	}
	uncached := remote(t, authn.RemoteOptions{WebhookConfigFile: hookFile(t, hook), WebhookVersion: version})
	for range 2 {
		ask(uncached, "good")
	}
	if asked != 4 {
		t.Errorf("without a cache, it was asked %d times for two requests", asked-2)
	}
	// A token for another audience is refused.
	a, err := authn.New(authn.Options{Remote: r, Audiences: []string{issuer}})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{"good": true, "vault's": false} {
		request := httptest.NewRequest("GET", "/", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		if who, ok, err := a.User(request); ok != want {
			t.Errorf("%s: %v %v %v", token, who, ok, err)
		}
	}
}

// bootstrapSecret stores the Secret of a bootstrap token.
func bootstrapSecret(t testing.TB, store resources.Store, id string, expires time.Time) {
	t.Helper()
	data := fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"bootstrap-token-%s","namespace":"kube-system","resourceVersion":"0"},`+
		`"type":"bootstrap.kubernetes.io/token","data":{"token-id":%q,"token-secret":%q,"usage-bootstrap-authentication":"dHJ1ZQ==","expiration":%q}}`,
		id, encoded(id), encoded("0123456789abcdef"), encoded(expires.Format(time.RFC3339)))
	at := strings.Index(data, `"0"`) + 1
	if _, err := store.Commit(t.Context(), resources.Write{Op: resources.Create,
		Key:   resources.Key{Resource: "secrets", Namespace: "kube-system", Name: "bootstrap-token-" + id},
		Draft: resources.Draft{Data: []byte(data), RevisionStart: at, RevisionEnd: at + 1}}); err != nil {
		t.Fatal(err)
	}
}

// A bootstrap token is valid as long as its Secret exists, and not after its expiry.
func TestBootstrapTokens(t *testing.T) {
	store := sqlitetest.Open(t)
	bootstrapSecret(t, store, "abcdef", time.Now().Add(time.Hour))
	bootstrapSecret(t, store, "ghijkl", time.Now().Add(-time.Hour))
	r := remote(t, authn.RemoteOptions{Bootstrap: true, Store: store})
	if got := ask(r, "abcdef.0123456789abcdef"); got != "system:bootstrap:abcdef system:bootstrappers,system:authenticated" {
		t.Errorf("is %s", got)
	}
	for _, bad := range []string{"abcdef.0123456789abcdeX", "ghijkl.0123456789abcdef", "mnopqr.0123456789abcdef"} {
		if got := ask(r, bad); !strings.HasPrefix(got, "nobody") {
			t.Errorf("%s is %s", bad, got)
		}
	}
	key := resources.Key{Resource: "secrets", Namespace: "kube-system", Name: "bootstrap-token-abcdef"}
	o, err := store.Get(t.Context(), key, resources.At{Match: resources.MostRecent})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), resources.Write{Op: resources.Delete, Key: key, From: o.Revision}); err != nil {
		t.Fatal(err)
	}
	if got := ask(r, "abcdef.0123456789abcdef"); !strings.HasPrefix(got, "nobody") {
		t.Errorf("without its Secret, is %s", got)
	}
}

func encoded(s string) string {
	data, _ := json.Marshal([]byte(s))
	return strings.Trim(string(data), `"`)
}

// A wrong configuration is reported at the start.
func TestWrongConfigurations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for content, want := range map[string]string{
		"":                        "the file is empty",
		"apiVersion: v1\nkind: X": "no kind",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nunknown: x":                                                                                                      "unknown field",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{issuer: {url: \"" + issuer + "\", audiences: [a]}, claimMappings: {username: {claim: sub, prefix: ''}}}]": "must not overlap with disallowed issuers",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := authn.NewRemote(t.Context(), authn.RemoteOptions{ConfigFile: file, Issuers: []string{issuer}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", content, err)
		}
	}
	if r, err := authn.NewRemote(t.Context(), authn.RemoteOptions{}); r != nil || err != nil {
		t.Error(r, err)
	}
}
