package expressions

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// compile makes a closure of an expression. The checker guarantees that it is well typed, except for int-or-string.
//
// Errors: errForeign.
func compile(e ast.Expr, s *scope) (*term, error) {
	switch e.Kind() {
	case ast.LiteralKind:
		return literal(e)
	case ast.IdentKind:
		return ident(e.AsIdent(), s)
	case ast.SelectKind:
		return selected(e.AsSelect(), s)
	case ast.ListKind:
		return list(e.AsList(), s)
	case ast.MapKind:
		if e.AsMap().Size() == 0 {
			return &term{shape: &shape{kind: aMap}, eval: costs(mapOfNone, map[string]any{})}, nil
		}
	case ast.CallKind:
		return call(e.AsCall(), s)
	case ast.ComprehensionKind:
		return fold(e.AsComprehension(), s)
	}
	return nil, errForeign
}

// costs returns a constant value at a cost.
func costs(cost int64, v any) eval {
	return func(f *frame) (any, bool) {
		f.cost += cost
		return v, true
	}
}

func constant(k kind, v any) *term {
	return &term{shape: &shape{kind: k}, constant: true, value: v, eval: func(*frame) (any, bool) { return v, true }}
}

func literal(e ast.Expr) (*term, error) {
	switch v := e.AsLiteral().(type) {
	case types.Bool:
		return constant(aBool, bool(v)), nil
	case types.Int:
		return constant(anInt, int64(v)), nil
	case types.Double:
		return constant(aDouble, float64(v)), nil
	case types.String:
		return constant(aString, string(v)), nil
	case types.Duration:
		return constant(duration, v.Duration), nil
	}
	return nil, errForeign
}

func ident(name string, s *scope) (*term, error) {
	v := s.find(name)
	if v == nil || v.shape.kind == foreign {
		return nil, errForeign
	}
	slot := v.slot
	return &term{shape: v.shape, chain: true, eval: func(f *frame) (any, bool) {
		f.cost += selection
		return f.variables[slot], true
	}}, nil
}

// selectionCost is the cost of one more selection, besides the cost of its operand.
func selectionCost(of *term) int64 {
	if of.chain {
		return selection
	}
	return 2 * selection
}

// selected is a field, or a test of its presence. In an object null counts as absent; in a map upstream has to decide.
func selected(e ast.SelectExpr, s *scope) (*term, error) {
	of, err := compile(e.Operand(), s)
	if err != nil {
		return nil, err
	}
	name, nulls, field := e.FieldName(), false, of.item
	switch of.kind {
	case anObject:
		if name, nulls = apiservercel.Unescape(name); !nulls {
			return nil, errForeign
		}
		field = of.field(name)
	case aMap:
	default:
		return nil, errForeign
	}
	if field == nil || field.kind == foreign && !(e.IsTestOnly() && opaque(of, name)) {
		return nil, errForeign
	}
	operand, cost, is := of.eval, selectionCost(of), field.kind
	if e.IsTestOnly() {
		return truth(func(f *frame) (any, bool) {
			object, ok := operand(f)
			if !ok {
				return nil, false
			}
			f.cost += cost
			v, there := object.(map[string]any)[name]
			if !there || v == nil && nulls {
				return false, true
			}
			if _, ok = is.read(v); !ok && is == foreign {
				_, ok = v.(map[string]any)
			}
			return true, ok
		}), nil
	}
	return &term{shape: field, chain: true, eval: func(f *frame) (any, bool) {
		object, ok := operand(f)
		if !ok {
			return nil, false
		}
		f.cost += cost
		return is.read(object.(map[string]any)[name])
	}}, nil
}

// opaque reports whether a field has objects whose fields the schema does not describe: CEL can only test their presence.
func opaque(of *term, name string) bool {
	if of.kind != anObject {
		return false
	}
	property, ok := of.schema.Properties[name]
	return ok && property.Type == "object" && !property.XEmbeddedResource && !property.XIntOrString
}

// list is a list of values of one shape.
func list(e ast.ListExpr, s *scope) (*term, error) {
	if len(e.OptionalIndices()) > 0 {
		return nil, errForeign
	}
	made := &shape{kind: aList}
	all, fixed := make([]eval, 0, e.Size()), make([]any, 0, e.Size())
	for _, element := range e.Elements() {
		t, err := compile(element, s)
		if err != nil {
			return nil, err
		}
		item := joint(made.item, t.shape)
		if item == nil {
			return nil, errForeign
		}
		made.item = item
		all = append(all, t.eval)
		if t.constant {
			fixed = append(fixed, t.value)
		}
	}
	if len(fixed) == len(all) {
		return &term{shape: made, eval: costs(listOfNone, fixed)}, nil
	}
	return &term{shape: made, eval: func(f *frame) (any, bool) {
		f.cost += listOfNone
		values := make([]any, len(all))
		for i, of := range all {
			v, ok := of(f)
			if !ok {
				return nil, false
			}
			values[i] = v
		}
		return values, true
	}}, nil
}
