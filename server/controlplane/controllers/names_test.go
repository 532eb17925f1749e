package controllers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

func TestSelect(t *testing.T) {
	byDefault := without(controllers.Names(), controllers.OffByDefault()...)
	for _, tt := range []struct {
		list, want      []string
		bootstrapTokens bool
	}{
		{[]string{"*"}, byDefault, false},
		{[]string{"*", "-namespace"}, without(byDefault, "namespace-controller"), false},
		{[]string{"-garbage-collector-controller", "*"}, without(byDefault, "garbage-collector-controller"), false},
		{[]string{"garbagecollector"}, []string{"garbage-collector-controller"}, false},
		{[]string{"namespace-controller", "-namespace", "*"}, byDefault, false},
		{[]string{"-namespace"}, []string{}, false},
		{nil, []string{}, false},
		{[]string{"-nodeipam", "*", "-node-lifecycle-controller"}, byDefault, false},
		{[]string{"*"}, controllers.Names(), true},
		{[]string{"-tokencleaner", "*"}, without(controllers.Names(), "token-cleaner-controller"), true},
		{[]string{"namespace"}, []string{"namespace-controller"}, true},
		{nil, []string{}, true},
	} {
		got, err := controllers.Select(tt.list, tt.bootstrapTokens)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%v: %v\n%s", tt.list, err, diff)
		}
	}
	for _, list := range [][]string{{"deployment"}, {"-nothing"}, {""}, {"-*"}} {
		if got, err := controllers.Select(list, true); err == nil {
			t.Errorf("%v: no error, but %v", list, got)
		}
	}
}

// The names are kube-controller-manager's, with its aliases: whatever it accepts can be left out here.
func TestNamesAreUpstreams(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	manager := filepath.Join(strings.TrimSpace(string(out)), "cmd", "kube-controller-manager")
	constants, err := os.ReadFile(filepath.Join(manager, "names", "controller_names.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(\w+) += "([a-z-]+)"`).FindAllStringSubmatch(string(constants), -1)
	if len(names) < 45 {
		t.Fatalf("only %d names", len(names))
	}
	aliases := map[string]string{}
	files, err := filepath.Glob(filepath.Join(manager, "app", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`names\.(\w+),\s+aliases: +\[\]string\{"([a-z-]+)"\}`).FindAllStringSubmatch(string(text), -1) {
			aliases[found[1]] = found[2]
		}
	}
	if len(aliases) < 35 {
		t.Fatalf("only %d aliases", len(aliases))
	}
	for _, name := range names {
		list := []string{"-" + name[2], "-" + aliases[name[1]]}
		if aliases[name[1]] == "" {
			list = list[:1]
		}
		if _, err := controllers.Select(list, false); err != nil {
			t.Error(err)
		}
		ours := slices.Contains(controllers.Names(), name[2])
		if _, err := controllers.Select([]string{name[2]}, false); (err == nil) != ours {
			t.Errorf("%s is here: %t, and enabled: %v", name[2], ours, err)
		}
	}
}

func without(names []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(some, name) })
}
