// Package upstreamtest reads upstream's source for tests that compare it with Rowlock's copies and assumptions: unexported parts of
// kube-apiserver are in packages that depend on all of it.
package upstreamtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var moduleDirs sync.Map // from a module to the folder with its source

// ModuleDir returns the folder with the source of a module in the linked version.
func ModuleDir(t testing.TB, module string) string {
	t.Helper()
	if known, ok := moduleDirs.Load(module); ok {
		return known.(string)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find the source of %s: %v", module, err)
	}
	dir := strings.TrimSpace(string(out))
	moduleDirs.Store(module, dir)
	return dir
}

// PackageDir returns the folder with the source of a package of k8s.io.
func PackageDir(t testing.TB, pkg string) string {
	t.Helper()
	module := strings.Join(strings.SplitN(pkg, "/", 3)[:2], "/")
	return filepath.Join(ModuleDir(t, module), filepath.FromSlash(strings.TrimPrefix(pkg, module)))
}

// ParseFile parses a Go file.
func ParseFile(t testing.TB, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// ParsePackage parses the files of a package of k8s.io without its tests.
func ParsePackage(t testing.TB, pkg string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(PackageDir(t, pkg), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, ParseFile(t, name))
		}
	}
	if len(files) == 0 {
		t.Fatalf("%s has no files", pkg)
	}
	return files
}

// Imports returns the packages that a file imports, by the names that it uses for them.
func Imports(t testing.TB, file *ast.File) map[string]string {
	t.Helper()
	known := map[string]string{}
	for _, i := range file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(p)
		if major := strings.TrimLeft(name, "v0123456789"); major == "" && !strings.HasPrefix(p, "k8s.io/") {
			name = path.Base(path.Dir(p)) // the major version of a module
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		known[name] = p
	}
	return known
}

// Variable returns the initial value of a variable or a constant of a package.
func Variable(t testing.TB, files []*ast.File, name string) (ast.Expr, *ast.File) {
	t.Helper()
	for _, file := range files {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for i, n := range value.Names {
					if n.Name == name && i < len(value.Values) {
						return value.Values[i], file
					}
				}
			}
		}
	}
	t.Fatalf("there is no %s in %s", name, files[0].Name)
	return nil, nil
}

// Text returns the value of a literal.
func Text(t testing.TB, e ast.Expr) string {
	t.Helper()
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		t.Fatalf("%#v is no literal", e)
	}
	s, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// GoFiles yields the names of the Go files below a folder, tests excepted.
func GoFiles(t testing.TB, root string, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			visit(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Find returns the files below packages in which a pattern is found, once for each match, in order: as the path of a package with the name
// of the file. The test fails when fewer than atLeast files were read.
func Find(t testing.TB, pattern *regexp.Regexp, atLeast int, roots ...string) (found []string) {
	t.Helper()
	files := 0
	for _, root := range roots {
		dir := PackageDir(t, root)
		GoFiles(t, dir, func(name string) {
			files++
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for range pattern.FindAll(source, -1) {
				found = append(found, root+filepath.ToSlash(strings.TrimPrefix(name, dir)))
			}
		})
	}
	if files < atLeast {
		t.Errorf("only %d files were read", files)
	}
	slices.Sort(found)
	return found
}
