package upstreamtest

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Methods returns the methods that the source of some of the packages behind a package uses, by the full names of the interfaces and types that have
// them. Each method has the packages that use it.
func Methods(t testing.TB, behind string, of func(pkg string) bool) map[string]map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", `{{.ImportPath}}|{{.Export}}|{{.Dir}}|{{join .GoFiles "|"}}`, behind).Output()
	if err != nil {
		t.Fatalf("find the packages behind %s: %v", behind, err)
	}
	exports, sources := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		exports[fields[0]] = fields[1]
		if of(fields[0]) {
			for _, name := range fields[3:] {
				sources[fields[0]] = append(sources[fields[0]], filepath.Join(fields[2], name))
			}
		}
	}
	files := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(pkg string) (io.ReadCloser, error) { return os.Open(exports[pkg]) })}
	used := map[string]map[string][]string{}
	for pkg, names := range sources {
		info := types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
		var parsed []*ast.File
		for _, name := range names {
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		if _, err := config.Check(pkg, files, parsed, &info); err != nil {
			t.Fatal(err)
		}
		for _, s := range info.Selections {
			if named, ok := types.Unalias(s.Recv()).(*types.Named); ok && s.Kind() == types.MethodVal {
				methods := used[named.String()]
				if methods == nil {
					methods = map[string][]string{}
					used[named.String()] = methods
				}
				if by := methods[s.Obj().Name()]; len(by) == 0 || by[len(by)-1] != pkg {
					methods[s.Obj().Name()] = append(by, pkg)
				}
			}
		}
	}
	return used
}
