// Command openapigen writes the files that package openapi embeds: the definitions that kube-apiserver publishes, as text, and the documents of the
// default configuration and of the optional versions. Run it for a new Kubernetes version, and after every change to the inputs of documents; a
// test of package openapi fails while the files are stale.
//
//	make generate
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/upstream"
	rowlock "github.com/rowlock/rowlock/server/openapi"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: openapigen DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "openapigen:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	byDefault, added, err := registries()
	if err != nil {
		return err
	}
	if err := upstream.SetFeatureGates(map[string]bool{"AllAlpha": true, "AllBeta": true}); err != nil {
		return err
	}
	_, gated, err := registries()
	if err != nil {
		return err
	}
	files, err := rowlock.Prepare(openapi.GetOpenAPIDefinitions, byDefault, added, gated)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// registries returns the registry of the default configuration, and one with everything.
func registries() (byDefault, all *resources.Registry, err error) {
	everything, err := builtin.ParseRuntimeConfig(map[string]string{"api/all": "true"})
	if err != nil {
		return nil, nil, err
	}
	byDefault, all = resources.NewRegistry(), resources.NewRegistry()
	byDefault.SetGroups(builtin.Groups())
	all.SetGroups(builtin.Parts{APIs: everything}.Groups())
	return byDefault, all, nil
}
