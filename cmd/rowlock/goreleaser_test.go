package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources/upstream"
)

// goreleaser builds with the tags, flags and Kubernetes version of `make build`. They are defined in the Makefile, which
// goreleaser cannot read.
func TestReleasesAreBuiltAsTheMakefileSays(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	variable := func(name string) string {
		found := regexp.MustCompile(`(?m)^(?:export )?` + name + ` *:= *((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return strings.ReplaceAll(string(found[1]), "\\\n", " ")
	}
	file, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var release struct {
		Env    []string
		Builds []struct{ Flags, Ldflags []string }
	}
	if err := yaml.Unmarshal(file, &release); err != nil || len(release.Builds) != 1 {
		t.Fatalf("%d builds, %v", len(release.Builds), err)
	}
	want := []string{"-tags=" + variable("TAGS")}
	for _, f := range strings.Fields(strings.Trim(variable("GOFLAGS"), "$()")) {
		if f == "-trimpath" || f == "-buildvcs=false" {
			want = append(want, f)
		}
	}
	flags := release.Builds[0].Flags
	slices.Sort(want)
	if want = slices.Compact(want); len(want) < 3 || !slices.Equal(want, slices.Sorted(slices.Values(flags[:min(len(want), len(flags))]))) {
		t.Errorf("goreleaser's flags are %q, the Makefile's %q", flags, want)
	}
	// The last of these flags that matches a package applies to it.
	compiled := []string{"-gcflags=all=-l", "-gcflags=std="}
	for _, list := range []struct{ name, flags string }{{"hot", "="}, {"cold", "=-l"}} {
		for _, path := range strings.Fields(variable(list.name)) {
			compiled = append(compiled, "-gcflags="+strings.ReplaceAll(path, "$(module)", variable("module"))+"/..."+list.flags)
		}
	}
	if got := flags[min(len(want), len(flags)):]; !slices.Equal(compiled, got) || !strings.Contains(string(makefile), "program := -gcflags=all=-l -gcflags=std= $(hot:%=") {
		t.Errorf("goreleaser compiles with %q, the Makefile with %q", got, compiled)
	}
	linked := variable("rowlock_ld") + " " + strings.ReplaceAll(variable("kubernetes_ld"), "$(component_base)", variable("component_base"))
	symbols := regexp.MustCompile(`-X ([\w./-]+)=|(-\w\S*)`) // the variables that are set, and the other flags
	names := func(text string) (out []string) {
		for _, m := range symbols.FindAllStringSubmatch(text, -1) {
			out = append(out, m[1]+m[2])
		}
		return slices.Sorted(slices.Values(out))
	}
	ours, theirs := names(linked), names(strings.Join(release.Builds[0].Ldflags, " "))
	if len(ours) < 7 || !slices.Equal(ours, theirs) {
		t.Errorf("goreleaser links with %q, the Makefile with %q", theirs, ours)
	}
	for _, e := range release.Env {
		if version := regexp.MustCompile(`v1\.\d+\.\d+`).FindString(e); strings.HasPrefix(e, "KUBERNETES=") && version == upstream.Release {
			return
		}
	}
	t.Errorf("goreleaser's environment is %q, go.mod has Kubernetes %s", release.Env, upstream.Release)
}

// goreleaser packages the same files with the same modes as `make packages`, and the program.
func TestReleasesArePackagedAsByMake(t *testing.T) {
	type content struct {
		Src, Dst, Type string
		FileInfo       struct{ Mode int } `json:"file_info"`
	}
	var release struct {
		Nfpms []struct{ Contents []content }
	}
	var made struct{ Contents []content }
	for name, into := range map[string]any{"../../.goreleaser.yaml": &release, "../../packaging/package.yaml": &made} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	want := slices.DeleteFunc(made.Contents, func(c content) bool { return c.Dst == "/usr/bin/rowlock" })
	for i := range want {
		want[i].Src = strings.ReplaceAll(want[i].Src, "${STAGE}", "bin/packages")
		if want[i].FileInfo.Mode != 0o644 {
			t.Errorf("%s has no mode of its own, so that of the file that was built", want[i].Dst)
		}
	}
	if len(want) < 7 || len(release.Nfpms) != 1 || !slices.Equal(want, release.Nfpms[0].Contents) {
		t.Errorf("goreleaser packages %v, make %v", release.Nfpms, want)
	}
}
