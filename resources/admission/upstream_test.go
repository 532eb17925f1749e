package admission

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOrderIsUpstreams compares the names of the plugins, their order, and which are on by default, with the source of
// kube-apiserver. It is read, not linked: what is behind it is all of kube-apiserver.
func TestOrderIsUpstreams(t *testing.T) {
	file := parseFile(t, filepath.Join(moduleDir(t, "k8s.io/kubernetes"), "pkg", "kubeapiserver", "options", "plugins.go"))
	var names, on []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if n.Names[0].Name == "AllOrderedPlugins" {
				names = pluginNames(t, file, n.Values[0].(*ast.CompositeLit).Elts)
			}
		case *ast.AssignStmt:
			if left, ok := n.Lhs[0].(*ast.Ident); ok && left.Name == "defaultOnPlugins" {
				on = pluginNames(t, file, n.Rhs[0].(*ast.CallExpr).Args)
			}
		}
		return true
	})
	if diff := cmp.Diff(names, Names()); diff != "" {
		t.Errorf("order: %s", diff)
	}
	var ours []string
	for _, p := range ordered(Config{}) {
		if p.on {
			ours = append(ours, p.name)
		}
	}
	slices.Sort(on)
	slices.Sort(ours)
	if diff := cmp.Diff(on, ours); diff != "" || len(on) == 0 {
		t.Errorf("on by default: %s", diff)
	}
}

// pluginNames are the values of expressions like limitranger.PluginName.
func pluginNames(t *testing.T, file *ast.File, expressions []ast.Expr) (names []string) {
	t.Helper()
	for _, e := range expressions {
		selector := e.(*ast.SelectorExpr)
		names = append(names, constant(t, importOf(t, file, selector.X.(*ast.Ident).Name), selector.Sel.Name))
	}
	return names
}

// importOf is the path of the package that a file knows under a name.
func importOf(t *testing.T, file *ast.File, name string) string {
	t.Helper()
	for _, i := range file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if i.Name != nil && i.Name.Name == name || i.Name == nil && path.Base(p) == name {
			return p
		}
	}
	t.Fatalf("%s is not imported", name)
	return ""
}

// constant is the value of a constant string of a package.
func constant(t *testing.T, pkg, name string) string {
	t.Helper()
	module := strings.Join(strings.SplitN(pkg, "/", 3)[:2], "/")
	files, err := filepath.Glob(filepath.Join(moduleDir(t, module), strings.TrimPrefix(pkg, module), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, decl := range parseFile(t, f).Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				if value.Names[0].Name != name || len(value.Values) == 0 {
					continue
				}
				text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
		}
	}
	t.Fatalf("%s has no constant %s", pkg, name)
	return ""
}

func parseFile(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

var moduleDirs = map[string]string{}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	if moduleDirs[module] == "" {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		moduleDirs[module] = strings.TrimSpace(string(out))
	}
	return moduleDirs[module]
}
