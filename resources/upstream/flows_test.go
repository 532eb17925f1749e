package upstream

import (
	"go/ast"
	"go/printer"
	"go/token"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestNewFlowsIsUpstreams compares the configuration that NewFlows makes with that of flowcontrol.New, and both with the fields that there are.
func TestNewFlowsIsUpstreams(t *testing.T) {
	const flowcontrol = "k8s.io/apiserver/pkg/util/flowcontrol"
	theirs := upstreamtest.ParsePackage(t, flowcontrol)
	want := configOf(t, theirs, "New")
	if want["FlowcontrolClient"] != "flowcontrolClient" || want["InformerFactory"] != "informerFactory" {
		t.Fatalf("upstream's configuration is %v", want)
	}
	want["FlowcontrolClient"], want["QueueSetFactory"] = "client", "queues("+want["QueueSetFactory"]+")"
	want["AsFieldManager"] = flowcontrol + "." + want["AsFieldManager"]
	got := configOf(t, []*ast.File{upstreamtest.ParseFile(t, "flows.go")}, "NewFlows")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the configuration (-upstream +ours): %s", diff)
	}
	fields := 0
	for _, file := range theirs {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == "TestableConfig" {
				fields = spec.Type.(*ast.StructType).Fields.NumFields()
			}
			return true
		})
	}
	if fields != len(got)-1 {
		t.Errorf("TestableConfig has %d fields, and %v are set", fields, got)
	}
}

// configOf returns the fields that a function sets in a literal, and its one variable, with their values. Packages have their full names.
func configOf(t *testing.T, files []*ast.File, function string) map[string]string {
	t.Helper()
	config := map[string]string{}
	for _, file := range files {
		known := upstreamtest.Imports(t, file)
		value := func(e ast.Expr) string {
			ast.Inspect(e, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && known[x.Name] != "" {
						x.Name = known[x.Name]
					}
				}
				return true
			})
			text := strings.Builder{}
			if err := printer.Fprint(&text, token.NewFileSet(), e); err != nil {
				t.Fatal(err)
			}
			return text.String()
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Name.Name != function {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					config[value(n.Lhs[0])] = value(n.Rhs[0])
				case *ast.KeyValueExpr:
					config[value(n.Key)] = value(n.Value)
				}
				return true
			})
		}
	}
	return config
}
