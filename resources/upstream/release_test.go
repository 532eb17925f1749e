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

// modules are the files that name modules of Kubernetes in this release: Rowlock's own, and that of the test peers that
// are built from Kubernetes' source. The other peers need the versions of their own releases.
var modules = []string{"../../go.mod", "../../e2e/peers/kubernetes/go.mod"}

// TestReleaseIsTheOneLinked: all modules of Kubernetes are of one release, which is Release.
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

// ownVersions are the modules of k8s.io with their own versions.
var ownVersions = map[string]bool{"k8s.io/kube-openapi": true, "k8s.io/utils": true, "k8s.io/gengo": true, "k8s.io/system-validators": true}

// Another build of this release may be reported, but no other release, with the errors of k8s.io/component-base/version.
func TestReportVersion(t *testing.T) {
	own := Release + "-own"
	for v, want := range map[string]string{
		Release: "", own: "", Release + "+own.3": "",
		"v1.36.0": `version "v1.36.0" must match major/minor/patch of default version "` + Release + `"`,
		"v1":      `illegal version string "v1"`,
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
	ReportVersion(own)
	if got := Version().GitVersion; got != own {
		t.Errorf("reported as %q", got)
	}
}
