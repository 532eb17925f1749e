package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Root is the root directory of the repository: the one above the working directory that has the Makefile.
var Root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "Makefile")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			panic("no Makefile above " + dir + ": run this within the repository")
		}
	}
})

// Build brings the named binaries (rowlock, kubectl, kube-apiserver, kube-controller-manager, etcd, kine) up to date. The Makefile defines how each
// is built, so that a test runs what a user builds.
func Build(ctx context.Context, names ...string) error {
	args := []string{"--no-print-directory", "-C", Root()}
	for _, name := range names {
		args = append(args, "bin/"+filepath.Base(Binary(name)))
	}
	cmd := exec.CommandContext(ctx, "make", args...)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=") // the value from the make that runs the tests names pipes that are not passed on
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make %v: %w", args, err)
	}
	return nil
}

// Binary is the path of a binary that Build makes. In a program that was built with the race detector, Rowlock's binary has it too.
func Binary(name string) string {
	if name == "rowlock" && race {
		name = "rowlock-race"
	}
	return filepath.Join(Root(), "bin", name)
}
