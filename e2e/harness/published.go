package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// publishedIn are the modules of e2e/peers/definitions and where each of them keeps its definitions: directories and files.
var publishedIn = map[string][]string{
	"github.com/argoproj/argo-cd/v3":                     {"manifests/crds"},
	"github.com/cert-manager/cert-manager":               {"deploy/crds"},
	"github.com/crossplane/crossplane/v2":                {"cluster/crds"},
	"github.com/external-secrets/external-secrets":       {"config/crds/bases"},
	"github.com/fluxcd/source-controller":                {"config/crd/bases"},
	"github.com/kyverno/kyverno":                         {"config/crds/kyverno", "config/crds/policies.kyverno.io"},
	"github.com/prometheus-operator/prometheus-operator": {"example/prometheus-operator-crd"},
	"istio.io/api":            {"kubernetes/customresourcedefinitions.gen.yaml"},
	"knative.dev/serving":     {"config/core/300-resources"},
	"sigs.k8s.io/cluster-api": {"core/config/crd/bases", "bootstrap/kubeadm/config/crd/bases", "controlplane/kubeadm/config/crd/bases"},
	"sigs.k8s.io/gateway-api": {"config/crd/standard"},
}

// publishedModules returns the directories of the modules of one of e2e/peers by their names. If they are missing, it fills Go's cache of modules.
func publishedModules(ctx context.Context, peers string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json")
	cmd.Dir, cmd.Env = filepath.Join(Root(), "e2e", "peers", peers), append(os.Environ(), "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("modules with %s: %w", peers, err)
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var module struct{ Path, Dir string }
		if err := d.Decode(&module); errors.Is(err, io.EOF) {
			return dirs, nil
		} else if err != nil {
			return nil, fmt.Errorf("modules with %s: %w", peers, err)
		}
		dirs[module.Path] = module.Dir
	}
}

// PublishedPlaces returns the files and directories in which projects publish their definitions, in the order of their modules' names, as arguments
// of kubectl apply.
func PublishedPlaces(ctx context.Context) ([]string, error) {
	dirs, err := publishedModules(ctx, "definitions")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, module := range slices.Sorted(maps.Keys(publishedIn)) {
		for _, place := range publishedIn[module] {
			all = append(all, filepath.Join(dirs[module], place))
		}
	}
	return all, nil
}

// Published returns CustomResourceDefinitions that projects have published, one project after the other in the order of their modules' names. They
// are read from the cache of Go's modules, which is filled when they are missing. None has a webhook for conversion, as no server would answer for
// it.
func Published(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	places, err := PublishedPlaces(ctx)
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, place := range places {
		found, err := definitionsBelow(place)
		if err != nil {
			return nil, fmt.Errorf("definitions of %s: %w", place, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// definitionsBelow reads the definitions in a file, or in the files of a directory.
func definitionsBelow(path string) (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	err = filepath.WalkDir(path, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".yaml") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := sigsyaml.Unmarshal(document, crd); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if crd.Kind == "CustomResourceDefinition" {
				crd.Spec.Conversion = nil
				crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
				all = append(all, crd)
			}
		}
	})
	if err == nil && len(all) == 0 {
		err = errors.New("there are none")
	}
	return all, err
}
