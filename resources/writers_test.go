package resources_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writers are the files that may name a Writer or call Commit: the pipeline's, the access to Rowlock's own rows, and cmd,
// which opens the store and passes it to these. No other code can write around the pipeline.
var writers = []string{
	"resources/store.go",         // the contract
	"resources/pipeline.go",      // holds the store
	"resources/create.go",        // commits a create
	"resources/timed.go",         // commits, and measures the duration
	"resources/guaranteed.go",    // commits an update, a deletion, an operation
	"resources/delete_unread.go", // commits the deletion of an unreadable object
	"resources/rows.go",          // the rows that no API serves
}

// allowed are names that single files may use. A pipeline without an authorizer, admission and an audit would be a way around those of the one that
// there is.
var allowed = map[string][]string{
	"cmd/rowlock/parts.go":            {"NewPipeline"},                    // the one of a server
	"server/servertest/servertest.go": {"NewPipeline"},                    // those of tests
	"resources/delete.go":             {"GuaranteedUpdate", "a Pipeline"}, // the latter is empty: it only prepares
	"resources/operate.go":            {"GuaranteedUpdate"},
	"resources/update.go":             {"GuaranteedUpdate"},
}

// apart are the folders in which Commit means something else: the store itself and its conformance suite, and tools.
var apart = []string{"sqlstore", "migrations", "resources/storetest", "e2e", ".git"}

// passing are the names of package resources with which code could write around the pipeline, or make another one.
var passing = []string{"Store", "Writer", "GuaranteedUpdate", "NewPipeline"}

// Handlers, controllers, bootstrap and repairs write through the pipeline: outside of writers, no code has one of the names with
// which it could do otherwise, and no function is called Commit.
func TestOnlyThePipelineWrites(t *testing.T) {
	root := ".."
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir() && slices.Contains(apart, name):
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"), slices.Contains(writers, name):
			return nil
		}
		seen++
		for _, offence := range offences(t, path, nil) {
			if !slices.Contains(allowed[name], offence) {
				t.Errorf("%s: %s goes around the pipeline (resources.Pipeline)", name, offence)
			}
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Fatalf("%d files were looked at: %v", seen, err)
	}
}

// TestWritersAreFound checks that the test above finds what it has to find.
func TestWritersAreFound(t *testing.T) {
	for source, want := range map[string]int{
		`package a; import "github.com/rowlock/rowlock/resources"; func f(s resources.Store) {}`:                    1,
		`package a; import r "github.com/rowlock/rowlock/resources"; func f(s any) { _ = s.(r.Writer) }`:            1,
		`package a; func f(s interface{ Commit() }) { s.Commit() }`:                                                 2,
		`package a; import "github.com/rowlock/rowlock/resources"; func f(p *resources.Pipeline, v resources.View)`: 0,
		`package a; func f(s S) { g(s.Commit) }`:                                                                    1,
		`package resources; func f(s Store, p atomic.Bool) { p.Store(true) }`:                                       1,
		`package a; import "github.com/rowlock/rowlock/resources"; var _ = resources.NewPipeline(s, o)`:             1,
		`package a; import "github.com/rowlock/rowlock/resources"; func f() { g(resources.GuaranteedUpdate) }`:      1,
		`package resources; func f() { _ = &Pipeline{store: s}; GuaranteedUpdate(ctx, s, key, change) }`:            2,
	} {
		if got := offences(t, "a.go", source); len(got) != want {
			t.Errorf("%s\nhas %q, want %d", source, got, want)
		}
	}
}

// offences are the uses of a way to write in a file.
func offences(t *testing.T, path string, source any) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	name := "resources"
	for _, i := range file.Imports {
		if strings.HasSuffix(i.Path.Value, `/rowlock/resources"`) && i.Name != nil {
			name = i.Name.Name
		}
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			if n.Sel.Name == "Commit" || x != nil && x.Name == name && slices.Contains(passing, n.Sel.Name) {
				found = append(found, n.Sel.Name)
				return false
			}
			ast.Inspect(n.X, visit) // and not the selected name, which belongs to another type
			return false
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				if len(m.Names) > 0 && m.Names[0].Name == "Commit" {
					found = append(found, "an interface with Commit")
				}
			}
		case *ast.Ident:
			// Within the package the names have no qualifier.
			if file.Name.Name == "resources" && slices.Contains(passing, n.Name) {
				found = append(found, n.Name)
			}
		case *ast.CompositeLit:
			if of, ok := n.Type.(*ast.Ident); ok && of.Name == "Pipeline" && file.Name.Name == "resources" {
				found = append(found, "a Pipeline")
			}
		}
		return true
	}
	ast.Inspect(file, visit)
	return found
}
