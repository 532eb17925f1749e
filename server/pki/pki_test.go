package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clock is a time that stands still until a test moves it.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time          { return c.now }
func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

const day = 24 * time.Hour

func testOptions(dir string, c *clock) Options {
	return Options{DataDir: dir, Names: DefaultNames("box", "10.43.0.1"), Now: c.Now,
		Logger: slog.New(slog.DiscardHandler)}
}

func mustOpen(t *testing.T, o Options) *PKI {
	t.Helper()
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// handshake connects to a server with p's configuration, and returns its certificate for serverName, as a client sees
// it that trusts roots.
func handshake(t *testing.T, p *PKI, c *clock, roots *x509.CertPool, serverName string) (*x509.Certificate, error) {
	t.Helper()
	serverEnd, clientEnd := net.Pipe()
	defer clientEnd.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer serverEnd.Close()
		_ = tls.Server(serverEnd, p.TLSConfig()).Handshake() // the client reports its failure
	}()
	client := tls.Client(clientEnd, &tls.Config{RootCAs: roots, ServerName: serverName, Time: c.Now})
	err := client.Handshake()
	clientEnd.Close()
	<-done
	if err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

func roots(p *PKI) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.ca.Load().cert)
	return pool
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFirstStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	c := newClock()
	o := testOptions(dir, c)
	o.Names = append(o.Names, "api.example.com", "192.0.2.7")
	p := mustOpen(t, o)
	if err := p.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}

	modes := map[string]fs.FileMode{
		".": 0o700, "pki": 0o700, "pki/ca.key": 0o600, "pki/apiserver.key": 0o600, "admin.kubeconfig": 0o600,
	}
	for name, want := range modes {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "box", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.43.0.1", "api.example.com", "192.0.2.7"} {
		if _, err := handshake(t, p, c, roots(p), name); err != nil {
			t.Errorf("as %s: %v", name, err)
		}
	}
	if _, err := handshake(t, p, c, roots(p), "elsewhere.example.com"); err == nil {
		t.Error("the serving certificate is good for a name nobody asked for")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", ".*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v %v", left, err)
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	files := []string{"pki/ca.crt", "pki/ca.key", "pki/apiserver.crt", "pki/apiserver.key", "admin.kubeconfig"}
	start := func() map[string]string {
		p := mustOpen(t, testOptions(dir, c))
		if err := p.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
			t.Fatal(err)
		}
		content := map[string]string{}
		for _, f := range files {
			content[f] = string(read(t, filepath.Join(dir, f)))
		}
		return content
	}
	first := start()
	c.advance(30 * day)
	if diff := cmp.Diff(first, start()); diff != "" {
		t.Error(diff)
	}
}

func TestRenewalWhileRunning(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	p := mustOpen(t, testOptions(dir, c))
	if err := p.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	known := roots(p)
	serving, err := handshake(t, p, c, known, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := read(t, p.KubeconfigPath())

	c.advance(200 * day)
	if again, err := handshake(t, p, c, known, "localhost"); err != nil || !again.Equal(serving) {
		t.Errorf("renewed long before its end (%v)", err)
	}
	// The machine slept past the end of the certificate.
	c.advance(200 * day)
	renewed, err := handshake(t, p, c, known, "localhost")
	if err != nil {
		t.Fatalf("after the first certificate's end: %v", err)
	}
	if renewed.Equal(serving) || !c.now.Before(renewAt(renewed)) {
		t.Errorf("certificate until %v not renewed at %v", renewed.NotAfter, c.now)
	}
	if bytes.Equal(kubeconfig, read(t, p.KubeconfigPath())) {
		t.Error("admin.kubeconfig still has the old certificate")
	}
	if reopened := mustOpen(t, testOptions(dir, c)); !reopened.serving.Load().Leaf.Equal(renewed) {
		t.Error("the renewed certificate was not kept")
	}
}

func TestRenewalOfAuthority(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	p := mustOpen(t, testOptions(dir, c))
	old, oldPool := p.ca.Load(), p.ClientCAs()
	if p.ClientCAs() != oldPool {
		t.Error("the pool changes without need")
	}
	known := roots(p)

	c.advance(8 * 365 * day)
	if err := p.Refresh(); err != nil {
		t.Fatal(err)
	}
	if p.ca.Load().cert.Equal(old.cert) {
		t.Fatal("an authority with two years left of ten was not renewed")
	}
	if _, err := handshake(t, p, c, known, "localhost"); err != nil {
		t.Errorf("a client that knows only the old authority: %v", err)
	}
	if _, err := handshake(t, p, c, roots(p), "localhost"); err != nil {
		t.Errorf("a client that knows only the new authority: %v", err)
	}
	if p.ClientCAs() == oldPool {
		t.Error("the pool of client authorities did not change with the authority")
	}
	c.advance(3 * 365 * day)
	if _, err := handshake(t, p, c, known, "localhost"); err == nil {
		t.Error("the old authority outlived its end")
	}
}

func TestChangedNamesReissue(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	o := testOptions(dir, c)
	first := mustOpen(t, o).serving.Load().Leaf
	slices.Reverse(o.Names)
	if p := mustOpen(t, o); !p.serving.Load().Leaf.Equal(first) {
		t.Error("reissued for the same names in another order")
	}
	o.Names = append(o.Names, "new.example.com")
	p := mustOpen(t, o)
	if _, err := handshake(t, p, c, roots(p), "new.example.com"); err != nil {
		t.Error(err)
	}
}

func TestDamage(t *testing.T) {
	remove := func(name string) func(string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, "pki", name)) }
	}
	garble := func(name string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, "pki", name), []byte("garbage"), 0o600) }
	}
	swap := func(dir string) error {
		return os.Rename(filepath.Join(dir, "pki", "apiserver.key"), filepath.Join(dir, "pki", "ca.key"))
	}
	for _, tc := range []struct {
		name   string
		damage func(dir string) error
		want   string // in the error; empty: the server starts and clients still trust it
	}{
		{"authority's certificate lost", remove("ca.crt"), ""},
		{"authority's key lost", remove("ca.key"), "ca.key is not; restore it"},
		{"authority's certificate garbled", garble("ca.crt"), "ca.crt"},
		{"authority's key garbled", garble("ca.key"), "ca.key"},
		{"authority's key replaced", swap, "ca.key is not the key of"},
		{"serving certificate lost", remove("apiserver.crt"), ""},
		{"serving key lost", remove("apiserver.key"), ""},
		{"serving certificate garbled", garble("apiserver.crt"), ""},
		{"serving key garbled", garble("apiserver.key"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, c := t.TempDir(), newClock()
			known := roots(mustOpen(t, testOptions(dir, c)))
			if err := tc.damage(dir); err != nil {
				t.Fatal(err)
			}
			p, err := Open(testOptions(dir, c))
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("got %v, want an error with %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := handshake(t, p, c, known, "localhost"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRefreshFailureKeepsServing(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	p := mustOpen(t, testOptions(dir, c))
	known := roots(p)
	if err := os.RemoveAll(filepath.Join(dir, "pki")); err != nil {
		t.Fatal(err)
	}
	c.advance(300 * day)
	if _, err := handshake(t, p, c, known, "localhost"); err != nil {
		t.Errorf("a data directory that is gone ends service: %v", err)
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "a.b-c.example": true, "*.example.com": true, "10.0.0.1": true, "fe80::1": true,
		"": false, "under_score": false, "UPPER": false, "two words": false, "host:6443": false, "https://x": false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v", name, got)
		}
	}
	for _, name := range DefaultNames("Bad_Host", "10.43.0.1") {
		if !ValidName(name) {
			t.Errorf("default name %q", name)
		}
	}
}
