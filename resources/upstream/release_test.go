package upstream

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/component-base/version"
)

// modules are the files that name modules of Kubernetes in this release: Rowlock's own, and that of the peers of the tests
// that are built from Kubernetes' source. The other peers need what their own releases need.
var modules = []string{"../../go.mod", "../../e2e/peers/kubernetes/go.mod"}

// TestReleaseIsTheOneLinked: all modules of Kubernetes are of one release, and that is what Release says.
func TestReleaseIsTheOneLinked(t *testing.T) {
	staging := "v0." + strings.TrimPrefix(Release, "v1.")
	line := regexp.MustCompile(`(?m)^\s*(?:replace )?(k8s\.io/[a-z-]+)(?: => k8s\.io/[a-z-]+)? (v\S+)`)
	for _, name := range modules {
		data, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, m := range line.FindAllStringSubmatch(string(data), -1) {
			switch module, got := m[1], m[2]; {
			case module == "k8s.io/kubernetes":
				found++
				if got != Release {
					t.Errorf("%s has %s %s, this package says %s", name, module, got, Release)
				}
			case ownVersions[module]:
			default:
				found++
				if got != staging && got != "v0.0.0" {
					t.Errorf("%s has %s %s, which is not of %s", name, module, got, Release)
				}
			}
		}
		if found < 30 {
			t.Errorf("%s has %d modules of Kubernetes", name, found)
		}
	}
	if got := fmt.Sprintf("%d.%d", Major, Minor); got != version.DefaultKubeBinaryVersion || !strings.HasPrefix(Release, "v"+got+".") {
		t.Errorf("this is %s and %s, upstream says %s", Release, got, version.DefaultKubeBinaryVersion)
	}
	if info := Version(); info.GitVersion != Release || info.GoVersion == "" || info.Platform == "" {
		t.Errorf("%+v", info)
	}
}

// ownVersions are the modules of k8s.io that have versions of their own.
var ownVersions = map[string]bool{"k8s.io/kube-openapi": true, "k8s.io/utils": true, "k8s.io/gengo": true, "k8s.io/system-validators": true}

// The words are those of k8s.io/component-base/version.
func TestReportVersion(t *testing.T) {
	for v, want := range map[string]string{
		"v1.37.1": "", "v1.37.1-own": "", "v1.37.1+own.3": "",
		"v1.37.2":      `version "v1.37.2" must match major/minor/patch of default version "v1.37.1"`,
		"v1.37.1-own.": `could not parse pre-release/metadata (-own.) in version "v1.37.1-own."`,
		"v1":           `could not parse "v1" as version`,
	} {
		got := ""
		if err := ValidateVersion(v); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", v, got, want)
		}
	}
	t.Cleanup(func() { reported.Store(nil) })
	ReportVersion("v1.37.1-own")
	if got := Version().GitVersion; got != "v1.37.1-own" {
		t.Errorf("reported as %q", got)
	}
}
