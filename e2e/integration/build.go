package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rowlock/rowlock/e2e/harness"
)

// replaced are the files of upstream that start servers, by module, and the files of e2e/peers/kubernetes/integration that replace them.
var replaced = map[string]map[string]string{
	"k8s.io/apiextensions-apiserver": {
		"test/integration/fixtures/server.go": "fixtures/server.go",
	},
	"k8s.io/kubernetes": {
		"cmd/kube-apiserver/app/testing/testserver.go": "kubeapiserver/testserver.go",
		"test/integration/framework/etcd.go":           "framework/etcd.go",
		"test/integration/framework/hooks.go":          "framework/hooks.go",
		"test/integration/framework/test_server.go":    "framework/test_server.go",
	},
}

// builder compiles tests of published modules with some files replaced. Go refuses to replace files below its module cache. So a module is used by the name
// of a symbolic link in bin/integration, which a go.mod beside it names in place of the version.
type builder struct {
	dir   string // bin/integration
	peers string // e2e/peers/kubernetes
}

func newBuilder() (*builder, error) {
	b := &builder{dir: filepath.Join(harness.Root(), "bin", "integration"), peers: filepath.Join(harness.Root(), "e2e", "peers", "kubernetes")}
	return b, os.MkdirAll(b.dir, 0o755)
}

// file returns the name of a file of a module: the link without a suffix, .mod and .sum for go.mod and go.sum, .json for the overlay.
func (b *builder) file(module, suffix string) string {
	return filepath.Join(b.dir, filepath.Base(module)+suffix)
}

// prepare writes the link to a module, its go.mod and its overlay.
func (b *builder) prepare(ctx context.Context, module string) error {
	for _, suffix := range []string{".mod", ".sum"} {
		text, err := os.ReadFile(filepath.Join(b.peers, "go"+suffix))
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.file(module, suffix), text, 0o644); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	if err := runIn(ctx, b.peers, &out, "go", "mod", "download", "-json", module); err != nil {
		return err
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return err
	}
	link := b.file(module, "")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(found.Dir, link); err != nil {
		return err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for was, is := range replaced[module] {
		overlay.Replace[filepath.Join(link, was)] = filepath.Join(b.peers, "integration", is)
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.file(module, ".json"), text, 0o644); err != nil {
		return err
	}
	return runIn(ctx, b.peers, os.Stdout, "go", "mod", "edit", "-replace="+module+"="+link, b.file(module, ".mod"))
}

// build compiles the tests of a package and returns the binary, and the directory of the package, where they run.
func (b *builder) build(ctx context.Context, path string) (binary, dir string, err error) {
	module, within, _ := strings.Cut(path, "/test/integration")
	if replaced[module] == nil {
		return "", "", fmt.Errorf("%s belongs to no module whose files are replaced", path)
	}
	if err := b.prepare(ctx, module); err != nil {
		return "", "", err
	}
	// Tests expect the name that `go test` gives the binary: it is the field manager of their clients.
	binary = filepath.Join(b.file(module, strings.ReplaceAll(within, "/", "_")+".tests"), filepath.Base(path)+".test")
	fmt.Println("build", path)
	return binary, filepath.Join(b.file(module, ""), "test", "integration", within), runIn(ctx, b.peers, os.Stdout, "go", "test", "-c", "-vet=off",
		"-modfile", b.file(module, ".mod"), "-overlay", b.file(module, ".json"), "-ldflags", "-s -w", "-o", binary, path)
}

func runIn(ctx context.Context, dir string, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
