package fastpath

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// states returns the paths that are on; it restores their states when the test ends.
func states(t *testing.T) func() []string {
	t.Helper()
	for _, p := range all {
		t.Cleanup(p.Turn(true))
	}
	return func() (on []string) {
		for _, p := range all {
			if p.On() {
				on = append(on, p.Name)
			}
		}
		return on
	}
}

func TestChoose(t *testing.T) {
	on := states(t)
	without := func(names ...string) []string {
		return slices.DeleteFunc(Names(), func(name string) bool { return slices.Contains(names, name) })
	}
	for choice, want := range map[string][]string{
		"":                               Names(),
		"http2":                          Names(),
		"-http2":                         without("http2"),
		"all":                            Names(),
		"-all":                           nil,
		"-merge-patch":                   without("merge-patch"),
		"-merge-patch, -protobuf":        without("merge-patch", "protobuf"),
		"-all,protobuf":                  {"protobuf"},
		"-protobuf,all":                  Names(),
		"-protobuf,json-patch,-protobuf": without("protobuf"),
	} {
		var words []string
		if choice != "" {
			words = strings.Split(choice, ",")
		}
		if err := Choose(words); err != nil {
			t.Errorf("%q: %v", choice, err)
		}
		if got := on(); !slices.Equal(got, want) {
			t.Errorf("%q: on are %q, want %q", choice, got, want)
		}
	}
}

// An unknown name changes nothing, and the error lists the names.
func TestChooseUnknown(t *testing.T) {
	on := states(t)
	for _, choice := range []string{"merge", "-", "--merge-patch", "ALL"} {
		err := Choose([]string{"-all", choice})
		if err == nil {
			t.Fatalf("%q was taken", choice)
		}
		for _, name := range append(Names(), "all") {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q: %v does not list %s", choice, err, name)
			}
		}
		if got := on(); !slices.Equal(got, Names()) {
			t.Errorf("%q: on are %q", choice, got)
		}
	}
}

// Without a choice, the environment decides, when a path is first used.
func TestEnvironment(t *testing.T) {
	states(t)
	for value, want := range map[string]bool{"": true, "-all": false, "-protobuf": false, "-merge-patch": true, "-all,protobuf": true} {
		t.Setenv(Environment, value)
		Protobuf.state.Store(undecided)
		if got := Protobuf.On(); got != want {
			t.Errorf("%q: on is %t", value, got)
		}
		t.Setenv(Environment, "-all,protobuf")
		if got := Protobuf.On(); got != want {
			t.Errorf("%q: on is %t when asked again", value, got)
		}
	}
	t.Setenv(Environment, "-protobof")
	Protobuf.state.Store(undecided)
	defer func() {
		if why := fmt.Sprint(recover()); !strings.Contains(why, `no fast path "protobof"`) {
			t.Errorf("a test with a name that is none goes on: %s", why)
		}
	}()
	Protobuf.On()
}

func TestFallbacksAreCounted(t *testing.T) {
	p := &Path{}
	p.Fallback()
	p.Fallback()
	if p.Fallbacks() != 2 || !p.On() {
		t.Errorf("%d fallbacks, on: %t", p.Fallbacks(), p.On())
	}
}

// TestDocumented: the table of docs/fast-paths.md lists the paths of paths.go, in its order, and the tests that it names exist.
func TestDocumented(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs/fast-paths.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, inPackages := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile("((?:`[A-Za-z0-9]+`(?:, )?)+) \\(`([a-z0-9/]+)`\\)")
	var listed []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		if len(cells) != 5 || slices.ContainsFunc(cells, func(c string) bool { return strings.Trim(c, "| ") == "" }) {
			t.Errorf("a row of %d columns: %s", len(cells), line)
			continue
		}
		listed = append(listed, code.FindStringSubmatch(cells[0])[1])
		tests := inPackages.FindAllStringSubmatch(cells[4], -1)
		if len(tests) == 0 {
			t.Errorf("no test in %s", line)
		}
		for _, in := range tests {
			for _, name := range code.FindAllStringSubmatch(in[1], -1) {
				if !declares(t, filepath.Join(root, in[2]), name[1]) {
					t.Errorf("%s has no %s", in[2], name[1])
				}
			}
		}
	}
	if !slices.Equal(listed, Names()) {
		t.Errorf("the page lists %q, there are %q", listed, Names())
	}
	for _, p := range all {
		if p.Doc == "" || p.Name == everyPath || !regexp.MustCompile(`^[a-z][a-z0-9-]+$`).MatchString(p.Name) {
			t.Errorf("%q: %q", p.Name, p.Doc)
		}
	}
}

// declares reports whether a test of a package has the function.
func declares(t *testing.T, folder, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\nfunc "+function+"(")
	})
}
