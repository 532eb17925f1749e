package version

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"k8s.io/component-base/version"
)

func TestKubernetesIsTheModuleLinked(t *testing.T) {
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (\S+)`).FindSubmatch(data)
	if found == nil {
		t.Fatal("go.mod does not require k8s.io/kubernetes")
	}
	if got := string(found[1]); got != Kubernetes {
		t.Errorf("go.mod requires k8s.io/kubernetes %s, this package says %s", got, Kubernetes)
	}
}

func TestMinorIsTheModuleLinked(t *testing.T) {
	if got := fmt.Sprintf("%d.%d", Major, Minor); got != version.DefaultKubeBinaryVersion {
		t.Errorf("got %s, upstream says %s", got, version.DefaultKubeBinaryVersion)
	}
	if info := Info(); info.GitVersion != Kubernetes || info.GoVersion == "" || info.Platform == "" {
		t.Errorf("%+v", info)
	}
}
