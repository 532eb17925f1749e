package upstreamtest

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Metric is how a metric is declared.
type Metric struct {
	// Kind is Counter, Gauge, Histogram or Summary; Desc for one that is collected without an own value.
	Kind    string
	Labels  []string
	Buckets []float64
}

// Metrics returns the metrics that the packages below some folders declare with Prometheus' library, or with that of Kubernetes, by their names, and the
// files with declarations whose name cannot be read without running the code.
func Metrics(t testing.TB, roots ...string) (found map[string][]Metric, unread []string) {
	t.Helper()
	found, folders := map[string][]Metric{}, map[string]bool{}
	for _, root := range roots {
		GoFiles(t, root, func(name string) {
			if text, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			} else if bytes.Contains(text, []byte("Opts{")) || bytes.Contains(text, []byte("NewDesc(")) {
				folders[filepath.Dir(name)] = true
			}
		})
	}
	for folder := range folders {
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		p := &source{t: t, files: map[string]*ast.File{}, values: map[string]ast.Expr{}, functions: map[string]*ast.FuncDecl{}}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				p.add(name, ParseFile(t, name))
			}
		}
		for name, file := range p.files {
			if !p.declared(file, found) {
				unread = append(unread, name)
			}
		}
	}
	slices.Sort(unread)
	return found, unread
}

// declared adds the metrics that a file declares. It returns false where it cannot read the name of one. A function that gets the name as a parameter
// declares a metric for each of its calls.
func (p *source) declared(file *ast.File, found map[string][]Metric) (all bool) {
	all = true
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		d := declarationOf(call)
		if d == nil {
			return true
		}
		in := p.functionOf(file, call)
		known, read := p.variablesOf(in), false
		if read = p.declare(d, known, found); !read {
			for _, values := range p.callsOf(in, known) {
				read = p.declare(d, values, found) || read
			}
		}
		all = all && read
		return true
	})
	return all
}

// declare adds a metric, unless its name is unknown. Labels and bounds that are unknown are empty, as no other declaration has them.
func (p *source) declare(d *declaration, known map[string]any, found map[string][]Metric) bool {
	name, ok := p.value(d.name, known).(string)
	if !ok {
		return false
	}
	m := Metric{Kind: d.kind}
	for _, label := range listOf(p.value(d.labels, known)) {
		text, _ := label.(string)
		m.Labels = append(m.Labels, text)
	}
	slices.Sort(m.Labels)
	for _, bucket := range listOf(p.value(d.buckets, known)) {
		bound, _ := bucket.(float64)
		m.Buckets = append(m.Buckets, bound)
	}
	found[name] = append(found[name], m)
	return true
}

// declaration is how a metric is declared, before it is evaluated.
type declaration struct {
	kind                  string
	name, labels, buckets ast.Expr
}

// declarationOf returns the declaration of a metric in a call of its constructor; nil: there is none.
func declarationOf(call *ast.CallExpr) *declaration {
	if strings.HasSuffix(nameOf(call.Fun), "NewDesc") && len(call.Args) >= 3 {
		return &declaration{kind: "Desc", name: call.Args[0], labels: call.Args[2]}
	}
	if of, ok := call.Fun.(*ast.SelectorExpr); ok && nameOf(of.X) == "upstream" && len(call.Args) >= 3 &&
		(of.Sel.Name == "Histogram" || of.Sel.Name == "NewHistogramVec") {
		d := &declaration{kind: "Histogram", name: call.Args[0], buckets: call.Args[2], labels: &ast.CompositeLit{Elts: call.Args[3:]}}
		if call.Ellipsis.IsValid() {
			d.labels = call.Args[3]
		}
		return d
	}
	for i, arg := range call.Args {
		if unary, ok := arg.(*ast.UnaryExpr); ok {
			arg = unary.X
		}
		literal, ok := arg.(*ast.CompositeLit)
		if !ok {
			continue
		}
		kind, isOptions := strings.CutSuffix(nameOf(literal.Type), "Opts")
		if !isOptions || !slices.Contains([]string{"Counter", "Gauge", "Histogram", "Summary"}, kind) {
			continue
		}
		fields := map[string]ast.Expr{}
		for _, e := range literal.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				fields[nameOf(pair.Key)] = pair.Value
			}
		}
		d := &declaration{kind: kind, buckets: fields["Buckets"],
			name: &ast.CallExpr{Fun: ast.NewIdent("BuildFQName"), Args: []ast.Expr{fields["Namespace"], fields["Subsystem"], fields["Name"]}}}
		if strings.HasSuffix(nameOf(call.Fun), "Vec") && i+1 < len(call.Args) {
			d.labels = call.Args[i+1]
		}
		return d
	}
	return nil
}

// nameOf returns the name of a type, a function or a field, without its package.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
