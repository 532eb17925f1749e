package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A go.mod that requires Kubernetes gets all modules of a release: new ones are added, and removed ones dropped.
func TestEdits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go.mod")
	write := func(text string) goMod {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		mod, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		return mod
	}
	staging := map[string]bool{"k8s.io/api": true, "k8s.io/new": true, "k8s.io/kms": true}
	requires := `module m
require (
	example.com/other v1.0.0
	k8s.io/api v0.37.1
	k8s.io/kms v0.0.0 // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd
`
	got, wanted := edits(write(requires+`	k8s.io/kubernetes v1.37.1
)
replace k8s.io/api => k8s.io/api v0.37.1
replace k8s.io/gone => k8s.io/gone v0.37.1
replace example.com/other => example.com/fork v1.0.0
`), "v1.37.1", "v1.38.0-rc.1", staging)
	want := []string{"-require=k8s.io/kubernetes@v1.38.0-rc.1", "-require=k8s.io/api@v0.38.0-rc.1", "-dropreplace=k8s.io/gone",
		"-replace=k8s.io/api=k8s.io/api@v0.38.0-rc.1", "-replace=k8s.io/kms=k8s.io/kms@v0.38.0-rc.1", "-replace=k8s.io/new=k8s.io/new@v0.38.0-rc.1"}
	if diff := cmp.Diff(want, got); diff != "" || wanted != nil {
		t.Errorf("with Kubernetes: %s, and %v", diff, wanted)
	}
	got, wanted = edits(write(requires+"	k8s.io/new v0.35.4\n)\n"), "v1.37.1", "v1.38.0", staging)
	if diff := cmp.Diff([]string{"k8s.io/api@v0.38.0"}, wanted); diff != "" || got != nil {
		t.Errorf("without Kubernetes: %s, and %v", diff, got)
	}
}

func TestConstantsAreSet(t *testing.T) {
	source, err := os.ReadFile("../release.go")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "release.go")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := setConstants(file, "v1.99.3", "99"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(got), `const Release = "v1.99.3"`) || !strings.Contains(string(got), "const Minor = 99\n") {
		t.Errorf("%v: %s", err, got)
	}
	if err := run(t.TempDir(), "v2.0.0"); err == nil || !strings.Contains(err.Error(), "no release of Kubernetes") {
		t.Errorf("v2.0.0: %v", err)
	}
}
