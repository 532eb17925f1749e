package expressions

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Macros are expanded before an expression is checked. The form of the step shows which macro it was:
//
//	all         accu && test                      filter  test ? accu + [item] : accu
//	exists      accu || test                      map     accu + [value], or the same as filter has it
//	exists_one  test ? accu + 1 : accu

// step is the computation for each item.
type step struct {
	// quantifier is the operator of all and exists, and the sum for macros that count or collect.
	quantifier string
	test       ast.Expr // nil: all items count
	value      ast.Expr // the collected value; nil: items are counted
}

// stepOf recognizes the step of a macro, and checks that the rest of the comprehension belongs to the same macro.
func stepOf(c ast.ComprehensionExpr) (s step, ok bool) {
	if c.HasIterVar2() || c.LoopStep().Kind() != ast.CallKind {
		return s, false
	}
	accu := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == c.AccuVar() }
	do := c.LoopStep().AsCall()
	switch s.quantifier = do.FunctionName(); s.quantifier {
	case operators.LogicalAnd, operators.LogicalOr:
		args := do.Args()
		s.test = args[len(args)-1]
		begin := types.Bool(s.quantifier == operators.LogicalAnd)
		return s, len(args) == 2 && accu(args[0]) && accu(c.Result()) && isLiteral(c.AccuInit(), begin) && goesOn(c, begin, accu)
	case operators.Conditional:
		s.test = do.Args()[0]
		if !accu(do.Args()[2]) || do.Args()[1].Kind() != ast.CallKind {
			return s, false
		}
		do = do.Args()[1].AsCall()
	}
	s.quantifier = operators.Add
	if do.FunctionName() != operators.Add || !accu(do.Args()[0]) || !isLiteral(c.LoopCondition(), types.True) {
		return s, false
	}
	switch what := do.Args()[1]; what.Kind() {
	case ast.LiteralKind:
		if !isLiteral(what, types.IntOne) || !isLiteral(c.AccuInit(), types.IntZero) || c.Result().Kind() != ast.CallKind || s.test == nil {
			return s, false
		}
		one := c.Result().AsCall()
		return s, one.FunctionName() == operators.Equals && accu(one.Args()[0]) && isLiteral(one.Args()[1], types.IntOne)
	case ast.ListKind:
		if l := what.AsList(); l.Size() == 1 && len(l.OptionalIndices()) == 0 {
			s.value = l.Elements()[0]
			return s, accu(c.Result()) && c.AccuInit().Kind() == ast.ListKind && c.AccuInit().AsList().Size() == 0
		}
	}
	return s, false
}

func isLiteral(e ast.Expr, v any) bool { return e.Kind() == ast.LiteralKind && e.AsLiteral() == v }

// goesOn reports whether a loop continues as long as its value is the initial one.
func goesOn(c ast.ComprehensionExpr, begin types.Bool, accu func(ast.Expr) bool) bool {
	arg := c.LoopCondition()
	for _, name := range []string{operators.NotStrictlyFalse, operators.LogicalNot} {
		if name == operators.LogicalNot && begin == types.True {
			break
		}
		if arg.Kind() != ast.CallKind || arg.AsCall().FunctionName() != name {
			return false
		}
		arg = arg.AsCall().Args()[0]
	}
	return accu(arg)
}

// The costs of a fold besides its test and its values: for each item, for one that is counted or collected, and for the
// result.
const (
	eachItem    = 5
	eachCounted = 2
	eachKept    = 3 + listOfNone
	foldResult  = 3 + listOfNone
)

// fold compiles a macro over a list, or over the keys of a map.
func fold(c ast.ComprehensionExpr, s *scope) (*term, error) {
	step, ok := stepOf(c)
	over, err := compile(c.IterRange(), s)
	if !ok || err != nil {
		return nil, errForeign
	}
	item := over.item
	switch over.kind {
	case aMap:
		item = &shape{kind: aString}
	case aList:
		if item == nil {
			item = &shape{kind: aBool} // there are no items
		}
	default:
		return nil, errForeign
	}
	inner, err := s.with(c.IterVar(), item)
	if err != nil {
		return nil, err
	}
	var test, value *term
	if step.test != nil {
		if test, err = compile(step.test, inner); err != nil || test.kind != aBool {
			return nil, errForeign
		}
	}
	if step.value != nil {
		if value, err = compile(step.value, inner); err != nil || value.kind == foreign {
			return nil, errForeign
		}
	}
	loop := loop{over: over.eval, item: item.kind, slot: inner.slot}
	if test != nil {
		loop.test = test.eval
	}
	if value != nil {
		loop.value = value.eval
	}
	switch {
	case step.quantifier != operators.Add:
		return truth(loop.quantified(step.quantifier == operators.LogicalOr)), nil
	case value == nil:
		return truth(loop.one), nil
	}
	return &term{shape: &shape{kind: aList, item: value.shape}, eval: loop.collected}, nil
}

// loop iterates over the items of a list, or the keys of a map.
type loop struct {
	over        eval
	item        kind
	slot        int
	test, value eval
}

// each calls do for each item until do returns done. ok is false when an expression has no value.
func (l loop) each(f *frame, do func() (done, ok bool)) bool {
	of, ok := l.over(f)
	if !ok {
		return false
	}
	f.cost += foldResult
	switch of := of.(type) {
	case []any:
		for _, v := range of {
			if v, ok = l.item.read(v); !ok {
				return false
			}
			if done, ok := l.with(f, v, do); done || !ok {
				return ok
			}
		}
	case map[string]any:
		for key := range of {
			if done, ok := l.with(f, key, do); done || !ok {
				return ok
			}
		}
	}
	return true
}

func (l loop) with(f *frame, v any, do func() (done, ok bool)) (done, ok bool) {
	if f.cost += eachItem; f.cost > f.limit || f.interrupted() {
		return false, false
	}
	f.variables[l.slot] = v
	return do()
}

func (l loop) holds(f *frame) (is, ok bool) {
	v, ok := l.test(f)
	if !ok {
		return false, false
	}
	return v.(bool), true
}

// quantified is all, or exists: the value until ends the loop.
func (l loop) quantified(until bool) eval {
	return func(f *frame) (any, bool) {
		is := !until
		ok := l.each(f, func() (bool, bool) {
			v, ok := l.holds(f)
			is = v
			return v == until, ok
		})
		return is, ok
	}
}

func (l loop) one(f *frame) (any, bool) {
	n := 0
	ok := l.each(f, func() (bool, bool) {
		is, ok := l.holds(f)
		if is {
			n++
			f.cost += eachCounted
		}
		return false, ok
	})
	return n == 1, ok
}

func (l loop) collected(f *frame) (any, bool) {
	values := []any{}
	ok := l.each(f, func() (bool, bool) {
		if l.test != nil {
			if is, ok := l.holds(f); !is || !ok {
				return false, ok
			}
		}
		f.cost += eachKept
		v, ok := l.value(f)
		values = append(values, v)
		return false, ok
	})
	return values, ok
}
