package authn

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/server/pki"
)

// otherProxy returns the front proxy of another server: the file of its authority, and its certificate.
func otherProxy(t *testing.T) (authority string, shown *tls.Certificate) {
	t.Helper()
	dir := t.TempDir()
	other, err := pki.Open(pki.Options{DataDir: dir, Names: []string{"other"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "pki", "front-proxy-ca.crt"), other.ProxyCertificate()
}

// as returns a function that sends headers as a client with a certificate.
func (f *fixture) as(t *testing.T, shown *tls.Certificate) func(headers ...string) string {
	t.Helper()
	config := f.config(t)
	config.CertData, config.KeyData = nil, nil
	roots, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if shown != nil {
		roots.Certificates = []tls.Certificate{*shown}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: roots}}
	t.Cleanup(client.CloseIdleConnections)
	return func(headers ...string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", f.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return strconv.Itoa(response.StatusCode)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
}

// The headers of a trusted proxy name the user; those of other clients are ignored.
func TestFrontProxies(t *testing.T) {
	authority, shown := otherProxy(t)
	f := newFixture(t, pki.Options{ProxyCAFile: authority})
	own := f.adminCertificate(t)
	proxy, administrator, nobody := f.as(t, shown), f.as(t, &own), f.as(t, nil)
	_, unknown := otherProxy(t)
	for _, tc := range []struct {
		name    string
		as      func(...string) string
		headers []string
		want    string
	}{
		{"user", proxy, []string{"X-Remote-User", "jane"}, "jane system:authenticated"},
		{"another header", proxy, []string{"X-User", "jane", "X-Remote-User", "john"}, "jane system:authenticated"},
		{"groups", proxy, []string{"X-Remote-User", "jane", "X-Remote-Group", "a", "X-Remote-Group", "b"}, "jane a,b,system:authenticated"},
		{"nobody", proxy, []string{"X-Remote-Group", "a"}, "401"},
		{"nothing", proxy, nil, "401"},
		{"nothing, and a token", proxy, []string{"Authorization", "Bearer secret"}, "alice dev,ops,system:authenticated"},
		{"a token as well", proxy, []string{"X-Remote-User", "jane", "Authorization", "Bearer secret"}, "jane system:authenticated"},
		{"an administrator's certificate", administrator, []string{"X-Remote-User", "jane"}, admin},
		{"no certificate", nobody, []string{"X-Remote-User", "jane", "X-Remote-Group", "system:masters"}, "nobody"},
		{"a token", nobody, []string{"X-Remote-User", "jane", "Authorization", "Bearer lonely"}, "bob system:authenticated"},
		{"a certificate of another authority", f.as(t, unknown), []string{"X-Remote-User", "jane"}, "401"},
	} {
		for range 2 { // the second request of the connection uses the cached result
			if got := tc.as(tc.headers...); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
			}
		}
	}
}

// A proxy is trusted as long as its certificate and its authority are valid, also on a connection that stays open.
func TestFrontProxiesEnd(t *testing.T) {
	authority, shown := otherProxy(t)
	f := newFixture(t, pki.Options{ProxyCAFile: authority})
	proxy := f.as(t, shown)
	if got := proxy("X-Remote-User", "jane"); got != "jane system:authenticated" {
		t.Fatal(got)
	}
	f.offset.Store(int64(2 * 365 * 24 * time.Hour))
	if got := proxy("X-Remote-User", "jane"); got != "401" {
		t.Errorf("with a certificate that has ended: %s", got)
	}
	f.offset.Store(0)
	if got := proxy("X-Remote-User", "jane"); got != "jane system:authenticated" {
		t.Errorf("with a good certificate: %s", got)
	}
	other, _ := otherProxy(t)
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f.offset.Add(int64(time.Minute)) // files are read again
	if got := proxy("X-Remote-User", "jane"); got != "401" {
		t.Errorf("of an authority that was taken away: %s", got)
	}
}

// An authority of both proxies and clients is not distinct.
func TestAuthorityOfProxiesAndClients(t *testing.T) {
	dir := t.TempDir()
	o := pki.Options{DataDir: dir, Names: []string{"x"}, Logger: slog.New(slog.DiscardHandler)}
	if _, err := pki.Open(o); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{"ca.crt": false, "front-proxy-ca.crt": true} {
		o.ProxyCAFile = filepath.Join(dir, "pki", file)
		p, err := pki.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if pool, distinct := p.FrontProxyCAs(); pool == nil || distinct != want {
			t.Errorf("%s: distinct %v", file, distinct)
		}
	}
}
