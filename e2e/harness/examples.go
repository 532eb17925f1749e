package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// examplesIn are where the modules of e2e/peers/definitions keep examples of their types.
var examplesIn = map[string][]string{
	"github.com/argoproj/argo-cd/v3":                     {"applicationset/examples", "test/e2e/testdata", "manifests"},
	"github.com/cert-manager/cert-manager":               {"test/fixtures", "make/config"},
	"github.com/crossplane/crossplane/v2":                {"test/e2e/manifests", "cluster/composition"},
	"github.com/external-secrets/external-secrets":       {"docs/snippets", "tests/__snapshot__"},
	"github.com/fluxcd/source-controller":                {"config/samples", "config/testdata"},
	"github.com/kyverno/kyverno":                         {"test/cli/test", "test/cli/test-validating-policy", "test/cli/test-mutate"},
	"github.com/prometheus-operator/prometheus-operator": {"example"},
	"knative.dev/serving":                                {"test/test_images", "test/performance", "test/config", "config/core"},
	"sigs.k8s.io/gateway-api":                            {"examples", "hack/invalid-examples"},
}

// Example is an object that a project has published: an example to learn from, or one that has to be refused.
type Example struct {
	// File is its path below the root of the modules' cache.
	File string
	// Object is the object as written in the file.
	Object map[string]any
}

// Kind is the kind of the example.
func (e *Example) Kind() schema.GroupVersionKind {
	version, _ := e.Object["apiVersion"].(string)
	kind, _ := e.Object["kind"].(string)
	return schema.FromAPIVersionAndKind(version, kind)
}

// Examples returns the published objects of some kinds of the projects of Published, in the order of their files.
func Examples(ctx context.Context, of func(schema.GroupVersionKind) bool) ([]*Example, error) {
	dirs, err := publishedModules(ctx, "definitions")
	if err != nil {
		return nil, err
	}
	var all []*Example
	for _, module := range slices.Sorted(maps.Keys(examplesIn)) {
		for _, place := range examplesIn[module] {
			err := filepath.WalkDir(filepath.Join(dirs[module], place), func(file string, entry os.DirEntry, err error) error {
				if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".yaml") {
					return err
				}
				found, err := examplesOf(file, of)
				for _, e := range found {
					e.File = module + strings.TrimPrefix(file, dirs[module])
				}
				all = append(all, found...)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("examples of %s: %w", module, err)
			}
		}
	}
	return all, nil
}

// examplesOf reads the examples of a file. A file that is no YAML, a template for instance, has none.
func examplesOf(file string, of func(schema.GroupVersionKind) bool) ([]*Example, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []*Example
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		e := &Example{}
		if sigsyaml.Unmarshal(document, &e.Object) == nil && of(e.Kind()) {
			all = append(all, e)
		}
	}
}
