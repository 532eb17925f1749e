package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If a server has run and its database is gone, or is an empty file, the next start warns. A start that finds its database, keys only, or nothing
// does not warn.
func TestEmptiedDatabase(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	says := func(when string, want bool) {
		t.Helper()
		p := start(t, "--data-dir", dir)
		if code := p.end(); code != 0 {
			t.Fatalf("%s: exit code %d: %s", when, code, p.stderr.String())
		}
		if got := strings.Contains(p.stderr.String(), "the database is empty, and a new cluster begins in it"); got != want {
			t.Errorf("%s: said %v, want %v: %s", when, got, want, p.stderr.String())
		}
	}
	says("at first", false)
	says("again", false)
	if err := os.Remove(in("rowlock.db")); err != nil {
		t.Fatal(err)
	}
	says("without the database", true)
	says("again, in the new one", false)
	if err := os.Truncate(in("rowlock.db"), 0); err != nil {
		t.Fatal(err)
	}
	says("with an empty one", true)
	if err := errors.Join(os.Remove(in("rowlock.db")), os.Remove(in("admin.kubeconfig"))); err != nil {
		t.Fatal(err)
	}
	says("with certificates alone, as a start that failed leaves them", false)
}
