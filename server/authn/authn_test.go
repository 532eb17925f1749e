package authn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/server/pki"
)

const tokens = `secret,alice,uid-1,"dev,ops"
lonely,bob,uid-2
`

func tokenFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokens(t *testing.T) {
	who, err := New(Options{ClientCAs: x509.NewCertPool, TokenFile: tokenFile(t, tokens)})
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		OK, Err bool
		User    user.Info
	}
	alice := &user.DefaultInfo{Name: "alice", UID: "uid-1", Groups: []string{"dev", "ops", "system:authenticated"}}
	bob := &user.DefaultInfo{Name: "bob", UID: "uid-2", Groups: []string{"system:authenticated"}}
	for _, tc := range []struct {
		name, header string
		want         result
	}{
		{"no credentials", "", result{}},
		{"token", "Bearer secret", result{OK: true, User: alice}},
		{"scheme in lower case", "bearer secret", result{OK: true, User: alice}},
		{"token without groups", "Bearer lonely", result{OK: true, User: bob}},
		{"unknown token", "Bearer nope", result{Err: true}},
		{"beginning of a token", "Bearer secre", result{Err: true}},
		{"empty token", "Bearer ", result{}},
		{"another scheme", "Basic c2VjcmV0", result{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "https://server/api", nil)
			if tc.header != "" {
				r.Header.Set("Authorization", tc.header)
			}
			u, ok, err := who.User(r)
			if diff := cmp.Diff(tc.want, result{OK: ok, Err: err != nil, User: u}); diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
			if ok && r.Header.Get("Authorization") != "" {
				t.Error("the token is passed on")
			}
		})
	}
}

func TestBadTokenWithoutTokenFile(t *testing.T) {
	who, err := New(Options{ClientCAs: x509.NewCertPool})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "https://server/healthz", nil)
	r.Header.Set("Authorization", "Bearer anything")
	if _, ok, err := who.User(r); ok || err == nil {
		t.Errorf("got %v, %v; a token nobody knows is an error", ok, err)
	}
}

// A token that is removed from the file is refused, and an added one is accepted, without a restart. A file that cannot
// be read changes nothing.
func TestTokenFileChanges(t *testing.T) {
	path, clock := tokenFile(t, tokens), time.Now()
	who, err := New(Options{ClientCAs: x509.NewCertPool, TokenFile: path, Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	known := func(token string) bool {
		r := httptest.NewRequest("GET", "https://server/api", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		_, ok, _ := who.User(r)
		return ok
	}
	for _, step := range []struct {
		content                 string
		secret, lonely, another bool
	}{
		{tokens, true, true, false},
		{"lonely,bob,uid-2\nanother,carl,uid-3\n", false, true, true},
		{"only,two\n", false, true, true},
		{"secret,alice,uid-1\n", true, false, false},
	} {
		if err := os.WriteFile(path, []byte(step.content), 0o600); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(tokenFileInterval)
		if secret, lonely, another := known("secret"), known("lonely"), known("another"); secret != step.secret || lonely != step.lonely || another != step.another {
			t.Errorf("%q: %v %v %v", step.content, secret, lonely, another)
		}
	}
}

func TestTokenFileErrors(t *testing.T) {
	for _, path := range []string{"/nonexistent/tokens.csv", tokenFile(t, "only,two\n"), tokenFile(t, "a,\"b,c\n")} {
		if _, err := New(Options{ClientCAs: x509.NewCertPool, TokenFile: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// fixture is a TLS server that answers with the name and groups of its client.
type fixture struct {
	URL    string
	pki    *pki.PKI
	offset atomic.Int64 // of the server's clock, nanoseconds
}

func newFixture(t testing.TB, o pki.Options) *fixture {
	t.Helper()
	o.DataDir = t.TempDir()
	o.Names = pki.DefaultNames("box", "10.43.0.1")
	o.Logger = slog.New(slog.DiscardHandler)
	f := &fixture{}
	now := func() time.Time { return time.Now().Add(time.Duration(f.offset.Load())) }
	o.Now = now
	var err error
	if f.pki, err = pki.Open(o); err != nil {
		t.Fatal(err)
	}
	proxies := &FrontProxies{CAs: func() *x509.CertPool { pool, _ := f.pki.FrontProxyCAs(); return pool }, Names: []string{pki.ProxyName},
		Users: []string{"X-User", "X-Remote-User"}, UIDs: []string{"X-Remote-Uid"}, Groups: []string{"X-Remote-Group"}, Extras: []string{"X-Remote-Extra-"}}
	who, err := New(Options{ClientCAs: f.pki.ClientCAs, TokenFile: tokenFile(t, tokens), FrontProxies: proxies, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{TLSConfig: f.pki.TLSConfig(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok, err := who.User(r)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case !ok:
			fmt.Fprint(w, "nobody")
		default:
			fmt.Fprint(w, u.GetName(), " ", strings.Join(u.GetGroups(), ","))
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	f.URL = "https://" + listener.Addr().String()
	if err := f.pki.WriteKubeconfig(f.URL); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", f.pki.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

const admin = "kubernetes-admin system:masters,system:authenticated"

func TestAdminKubeconfig(t *testing.T) {
	f := newFixture(t, pki.Options{})
	client, err := rest.HTTPClientFor(f.config(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if code, body := get(t, client, f.URL); code != 200 || body != admin {
			t.Errorf("got %d %q", code, body)
		}
	}
	anonymous := f.config(t)
	anonymous.CertData, anonymous.KeyData = nil, nil
	if client, err = rest.HTTPClientFor(anonymous); err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, client, f.URL); body != "nobody" {
		t.Errorf("without a certificate: %q", body)
	}
}

// newClient returns a client with a certificate, over HTTP/2 or HTTP/1.1.
func (f *fixture) newClient(t *testing.T, cert tls.Certificate, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{
		InsecureSkipVerify:   true, // the server's certificate is not under test
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (f *fixture) adminCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	config := f.config(t)
	cert, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestForeignCertificate(t *testing.T) {
	f, other := newFixture(t, pki.Options{}), newFixture(t, pki.Options{})
	client := f.newClient(t, other.adminCertificate(t), true)
	if code, body := get(t, client, f.URL); code != http.StatusUnauthorized {
		t.Errorf("the certificate of another authority is taken: %d %q", code, body)
	}
	// A bad certificate does not invalidate a good token.
	r, err := http.NewRequest("GET", f.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer lonely")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("with a good token: %d", response.StatusCode)
	}
	// A serving certificate is not accepted as a client's, whoever signed it.
	serving := f.pki.TLSConfig()
	cert, err := serving.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := get(t, f.newClient(t, *cert, true), f.URL); code != http.StatusUnauthorized {
		t.Errorf("a serving certificate is taken for a client's: %d", code)
	}
}

func TestExpiryOnOpenConnection(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, pki.Options{})
			client := f.newClient(t, f.adminCertificate(t), http2)
			if code, body := get(t, client, f.URL); code != 200 || body != admin {
				t.Fatalf("got %d %q", code, body)
			}
			f.offset.Store(int64(366 * 24 * time.Hour))
			if code, body := get(t, client, f.URL); code != http.StatusUnauthorized {
				t.Errorf("an expired certificate is taken: %d %q", code, body)
			}
		})
	}
}

func TestClientCAFileWithdrawn(t *testing.T) {
	other := newFixture(t, pki.Options{})
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(data []byte) {
		// The file is replaced: two writes of one file can have the same stamp when they are as close as in a test.
		if err := errors.Join(os.WriteFile(file+".new", data, 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	write(other.config(t).CAData)
	f := newFixture(t, pki.Options{ClientCAFile: file})
	client := f.newClient(t, other.adminCertificate(t), true)
	if code, body := get(t, client, f.URL); code != 200 || body != admin {
		t.Fatalf("got %d %q", code, body)
	}
	write(f.config(t).CAData)
	f.offset.Store(int64(time.Minute))
	if code, body := get(t, client, f.URL); code != http.StatusUnauthorized {
		t.Errorf("a withdrawn authority is trusted on an open connection: %d %q", code, body)
	}
}
