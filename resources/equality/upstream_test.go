package equality

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCopiesOfSemantic counts where upstream copies Semantic or adds to it: functions added to a copy are not asked below
// the types that Register has comparers for, which says for each of these two why that does no harm.
func TestCopiesOfSemantic(t *testing.T) {
	modules := []string{"k8s.io/kubernetes", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver",
		"k8s.io/kube-aggregator", "k8s.io/component-base", "k8s.io/component-helpers", "k8s.io/pod-security-admission"}
	out, err := exec.Command("go", append([]string{"list", "-m", "-f", "{{.Path}} {{.Dir}}"}, modules...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`\bSemantic\.(Copy|AddFuncs?)\(`)
	var found []string
	files := 0
	for line := range strings.Lines(string(out)) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		roots := []string{dir}
		if module == "k8s.io/kubernetes" { // less what is not linked: test, cluster, the staging copies of the other modules
			roots = []string{filepath.Join(dir, "pkg"), filepath.Join(dir, "plugin")}
		}
		for _, root := range roots {
			err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
					return err
				}
				files++
				text, err := os.ReadFile(name)
				for range pattern.FindAll(text, -1) {
					found = append(found, module+filepath.ToSlash(strings.TrimPrefix(name, dir)))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.Sort(found)
	want := []string{
		"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go",
		"k8s.io/kubernetes/pkg/apis/core/validation/validation.go",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("copies of Semantic: %s", diff)
	}
	if files < 4000 {
		t.Errorf("only %d files were read", files)
	}
}
