package pki

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

func openShared(t *testing.T, dir string, store resources.Store, log *bytes.Buffer) *PKI {
	t.Helper()
	p, err := Open(Options{DataDir: dir, Names: []string{"localhost"}, Shared: resources.NewRows(store), Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Servers on one database share an authority: each accepts an administrator's certificate of the other.
func TestSharedAuthority(t *testing.T) {
	store := sqlitetest.Open(t)
	another := t.TempDir()
	if _, err := Open(Options{DataDir: another, Names: []string{"localhost"}}); err != nil {
		t.Fatal(err)
	}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var together sync.WaitGroup
	for _, dir := range dirs {
		together.Go(func() { openShared(t, dir, store, &bytes.Buffer{}) })
	}
	together.Wait()
	var log bytes.Buffer
	last := openShared(t, another, store, &log) // it had an authority of its own
	if !strings.Contains(log.String(), "takes the place") {
		t.Errorf("said %q", log.String())
	}
	for _, dir := range dirs {
		log.Reset()
		p := openShared(t, dir, store, &log)
		if err := p.WriteKubeconfig("https://127.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "authority") {
			t.Errorf("the second start said %q", log.String())
		}
		config, err := clientcmd.LoadFromFile(p.KubeconfigPath())
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range config.AuthInfos {
			verify(t, user.ClientCertificateData, last.ClientCAs())
		}
	}
}

func verify(t *testing.T, text []byte, roots *x509.CertPool) {
	t.Helper()
	certificates, err := cert.ParseCertsPEM(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificates[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}

// An unusable authority in the database is not replaced silently: all servers trust it.
func TestDamagedSharedAuthority(t *testing.T) {
	store := sqlitetest.Open(t)
	d, err := resources.InternalDraft("CertificateAuthority", "ca", map[string]string{"certificate": "", "key": ""})
	if err != nil {
		t.Fatal(err)
	}
	key := resources.Key{Resource: "authorities.rowlock.internal", Name: "ca"}
	if _, err := store.Commit(t.Context(), resources.Write{Op: resources.Create, Key: key, Draft: d}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := Open(Options{DataDir: dir, Names: []string{"localhost"}, Shared: resources.NewRows(store)}); err == nil {
		t.Error("it was opened")
	}
	if _, err := os.Stat(filepath.Join(dir, "pki", "ca.key")); err == nil {
		t.Error("another authority was made")
	}
}

// A server that was killed after it had written the key of the shared authority, and before the certificate, starts again.
func TestSharedAuthorityHalfWritten(t *testing.T) {
	store, first, second := sqlitetest.Open(t), t.TempDir(), t.TempDir()
	openShared(t, first, store, &bytes.Buffer{})
	if _, err := Open(Options{DataDir: second, Names: []string{"localhost"}}); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(first, "pki", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(second, "pki", "ca.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	p := openShared(t, second, store, &bytes.Buffer{})
	if !p.ca.Load().fits() {
		t.Error("the key is not that of the certificate")
	}
}
