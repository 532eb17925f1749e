package upstreamtest

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// source evaluates the expressions in a package with which metrics are declared.
type source struct {
	t         testing.TB
	files     map[string]*ast.File
	values    map[string]ast.Expr // of constants and variables of the package
	functions map[string]*ast.FuncDecl
}

func (p *source) add(name string, file *ast.File) {
	p.files[name] = file
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				p.functions[decl.Name.Name] = decl
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
					for i, name := range v.Names {
						p.values[name.Name] = v.Values[i]
					}
				}
			}
		}
	}
}

// function is one within which a metric is declared.
type function struct {
	name   string // that calls use; empty: none
	params *ast.FieldList
	body   *ast.BlockStmt
	outer  *function
}

// functionOf returns the innermost function that has a node; nil: none.
func (p *source) functionOf(file *ast.File, of ast.Node) (in *function) {
	names := map[*ast.FuncLit]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil || n.Pos() > of.Pos() || n.End() < of.End() {
			return n == file
		}
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				if literal, ok := value.(*ast.FuncLit); ok && len(n.Lhs) == len(n.Rhs) {
					names[literal] = nameOf(n.Lhs[i])
				}
			}
		case *ast.FuncDecl:
			in = &function{n.Name.Name, n.Type.Params, n.Body, in}
		case *ast.FuncLit:
			in = &function{names[n], n.Type.Params, n.Body, in}
		}
		return true
	})
	return in
}

// variablesOf returns the values of the constants and variables that a function declares, as far as they are known.
func (p *source) variablesOf(in *function) map[string]any {
	known := map[string]any{}
	note := func(name, value ast.Expr) {
		if v := p.value(value, known); v != nil {
			known[nameOf(name)] = v
		}
	}
	for f := in; f != nil; f = f.outer {
		ast.Inspect(f.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if len(n.Lhs) == len(n.Rhs) && n.Tok == token.DEFINE {
					for i, left := range n.Lhs {
						note(left, n.Rhs[i])
					}
				}
			case *ast.ValueSpec:
				for i, value := range n.Values {
					note(n.Names[i], value)
				}
			}
			return true
		})
	}
	return known
}

// callsOf returns the known values in a function for each of its calls in the package.
func (p *source) callsOf(in *function, known map[string]any) (calls []map[string]any) {
	if in == nil || in.name == "" {
		return nil
	}
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && nameOf(call.Fun) == in.name {
				values := maps.Clone(known)
				p.bind(values, in.params, call.Args)
				calls = append(calls, values)
			}
			return true
		})
	}
	return calls
}

// bind sets the parameters of a function.
func (p *source) bind(values map[string]any, params *ast.FieldList, args []ast.Expr) {
	i := 0
	for _, field := range params.List {
		for _, name := range field.Names {
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				rest := []any{}
				for ; i < len(args); i++ {
					rest = append(rest, p.value(args[i], values))
				}
				values[name.Name] = rest
			} else if i < len(args) {
				values[name.Name] = p.value(args[i], values)
			}
			i++
		}
	}
}

// value returns the value of an expression, as a string, a float64 or a []any of these; nil: it is unknown.
func (p *source) value(e ast.Expr, known map[string]any) any {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return Text(p.t, e)
		}
		if n, err := strconv.ParseFloat(e.Value, 64); err == nil {
			return n
		}
	case *ast.Ident:
		if v, ok := known[e.Name]; ok {
			return v
		}
		if v, ok := p.values[e.Name]; ok {
			return p.value(v, nil)
		}
	case *ast.SelectorExpr:
		if e.Sel.Name == "DefBuckets" {
			return anys(prometheus.DefBuckets)
		}
	case *ast.ParenExpr:
		return p.value(e.X, known)
	case *ast.BinaryExpr:
		return computed(e.Op, p.value(e.X, known), p.value(e.Y, known))
	case *ast.CompositeLit:
		all := []any{}
		for _, element := range e.Elts {
			all = append(all, p.value(element, known))
		}
		return all
	case *ast.SliceExpr:
		from, list := 0, listOf(p.value(e.X, known))
		to := len(list)
		if n, ok := p.value(e.Low, known).(float64); ok {
			from = int(n)
		}
		if n, ok := p.value(e.High, known).(float64); ok {
			to = int(n)
		}
		return list[from:to]
	case *ast.CallExpr:
		return p.result(e, known)
	}
	return nil
}

func computed(op token.Token, x, y any) any {
	if a, ok := x.(string); ok {
		if b, ok := y.(string); ok && op == token.ADD {
			return a + b
		}
	}
	a, isA := x.(float64)
	b, isB := y.(float64)
	switch {
	case !isA || !isB:
	case op == token.ADD:
		return a + b
	case op == token.MUL:
		return a * b
	case op == token.SHL:
		return float64(int(a) << int(b))
	}
	return nil
}

// result is value for a call: of a function that makes buckets, lists or names, or of one of the package that only returns a value.
func (p *source) result(call *ast.CallExpr, known map[string]any) any {
	var args []any
	for _, arg := range call.Args {
		args = append(args, p.value(arg, known))
	}
	number := func(i int) float64 { n, _ := args[i].(float64); return n }
	switch name := nameOf(call.Fun); {
	case name == "ExponentialBuckets" && len(args) == 3:
		return anys(prometheus.ExponentialBuckets(number(0), number(1), int(number(2))))
	case name == "LinearBuckets" && len(args) == 3:
		return anys(prometheus.LinearBuckets(number(0), number(1), int(number(2))))
	case name == "len":
		return float64(len(listOf(args[0])))
	case name == "append" && !call.Ellipsis.IsValid():
		return append(slices.Clone(listOf(args[0])), args[1:]...)
	case name == "append", name == "Concat", name == "Clone":
		all := []any{}
		for _, list := range args {
			all = append(all, listOf(list)...)
		}
		return all
	case name == "BuildFQName":
		var parts []string
		for i, part := range args {
			text, ok := part.(string)
			if !ok && (call.Args[i] != nil || i == len(args)-1) {
				return nil
			}
			if text != "" {
				parts = append(parts, text)
			}
		}
		return strings.Join(parts, "_")
	default:
		f := p.functions[name]
		if _, isIdent := call.Fun.(*ast.Ident); !isIdent || f == nil || f.Body == nil || len(f.Body.List) != 1 {
			return nil
		}
		if returns, ok := f.Body.List[0].(*ast.ReturnStmt); ok && len(returns.Results) == 1 {
			values := map[string]any{}
			maps.Copy(values, known)
			p.bind(values, f.Type.Params, call.Args)
			return p.value(returns.Results[0], values)
		}
	}
	return nil
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

func anys(all []float64) (list []any) {
	for _, v := range all {
		list = append(list, v)
	}
	return list
}
