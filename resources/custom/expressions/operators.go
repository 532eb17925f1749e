package expressions

import (
	"cmp"
	"math"
	"time"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// arguments compiles the target of a call, if there is one, and its arguments.
func arguments(e ast.CallExpr, s *scope) ([]*term, error) {
	var all []*term
	if e.IsMemberFunction() {
		t, err := compile(e.Target(), s)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	for _, a := range e.Args() {
		t, err := compile(a, s)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func call(e ast.CallExpr, s *scope) (*term, error) {
	args, err := arguments(e, s)
	if err != nil {
		return nil, err
	}
	switch name := e.FunctionName(); name {
	case operators.Conditional:
		return conditional(args[0], args[1], args[2])
	case operators.LogicalNot:
		return not(args[0])
	case operators.LogicalAnd:
		return logical(args, false)
	case operators.LogicalOr:
		return logical(args, true)
	case operators.Equals:
		return equal(args[0], args[1], true)
	case operators.NotEquals:
		return equal(args[0], args[1], false)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return ordered(args[0], args[1], name)
	case operators.Add, operators.Subtract:
		return sum(args[0], args[1], name == operators.Subtract)
	case operators.In:
		return in(args[0], args[1])
	case operators.Index:
		return index(args[0], args[1])
	default:
		return function(name, args)
	}
}

func truth(of eval) *term { return &term{shape: &shape{kind: aBool}, eval: of} }

func not(a *term) (*term, error) {
	if a.kind != aBool {
		return nil, errForeign
	}
	of := a.eval
	return truth(func(f *frame) (any, bool) {
		v, ok := of(f)
		if !ok {
			return nil, false
		}
		f.cost++
		return !v.(bool), true
	}), nil
}

// logical is && or ||: the value until ends the evaluation.
func logical(all []*term, until bool) (*term, error) {
	var evals []eval
	for _, a := range all {
		if a.kind != aBool {
			return nil, errForeign
		}
		evals = append(evals, a.eval)
	}
	return truth(func(f *frame) (any, bool) {
		for _, of := range evals {
			v, ok := of(f)
			if !ok {
				return nil, false
			}
			if v.(bool) == until {
				return until, true
			}
		}
		return !until, true
	}), nil
}

func conditional(test, then, otherwise *term) (*term, error) {
	of := joint(then.shape, otherwise.shape)
	if test.kind != aBool || of == nil || of.kind == foreign {
		return nil, errForeign
	}
	is, yes, no := test.eval, then.eval, otherwise.eval
	return &term{shape: of, eval: func(f *frame) (any, bool) {
		v, ok := is(f)
		if !ok {
			return nil, false
		}
		if v.(bool) {
			return yes(f)
		}
		return no(f)
	}}, nil
}

// pair evaluates two terms. Closures keep only evals: the shape of a term would keep the schema in memory.
type pair struct{ a, b eval }

func (p pair) both(f *frame) (x, y any, ok bool) {
	if x, ok = p.a(f); ok {
		y, ok = p.b(f)
	}
	return x, y, ok
}

// length is the size of a value for the cost of comparisons.
func length(v any) int {
	if s, ok := v.(string); ok {
		return len(s)
	}
	return 1
}

func equal(a, b *term, is bool) (*term, error) {
	if !equatable(a.shape, b.shape) {
		return nil, errForeign
	}
	of := pair{a.eval, b.eval}
	return truth(func(f *frame) (any, bool) {
		x, y, ok := of.both(f)
		if !ok {
			return nil, false
		}
		f.cost += traversal(min(length(x), length(y)))
		return (x == y) == is, true
	}), nil
}

func ordered(a, b *term, operator string) (*term, error) {
	of := pair{a.eval, b.eval}
	var compare func(x, y any) int
	switch {
	case a.kind != b.kind:
		return nil, errForeign
	case a.kind == anInt:
		compare = func(x, y any) int { return cmp.Compare(x.(int64), y.(int64)) }
	case a.kind == aDouble:
		compare = func(x, y any) int { return cmp.Compare(x.(float64), y.(float64)) }
	case a.kind == aString:
		compare = func(x, y any) int { return cmp.Compare(x.(string), y.(string)) }
	case a.kind == duration:
		compare = func(x, y any) int { return cmp.Compare(x.(time.Duration), y.(time.Duration)) }
	default:
		return nil, errForeign
	}
	var holds func(c int) bool
	switch operator {
	case operators.Less:
		holds = func(c int) bool { return c < 0 }
	case operators.LessEquals:
		holds = func(c int) bool { return c <= 0 }
	case operators.Greater:
		holds = func(c int) bool { return c > 0 }
	default:
		holds = func(c int) bool { return c >= 0 }
	}
	return truth(func(f *frame) (any, bool) {
		x, y, ok := of.both(f)
		if !ok {
			return nil, false
		}
		f.cost += 1 + traversal(min(length(x), length(y)))
		return holds(compare(x, y)), true
	}), nil
}

// sum adds or subtracts whole numbers, or adds texts. An overflow has no value.
func sum(a, b *term, subtract bool) (*term, error) {
	of := pair{a.eval, b.eval}
	switch {
	case a.kind != b.kind:
		return nil, errForeign
	case a.kind == anInt:
		return &term{shape: a.shape, eval: func(f *frame) (any, bool) {
			x, y, ok := of.both(f)
			if !ok {
				return nil, false
			}
			f.cost++
			n, m := x.(int64), y.(int64)
			if subtract {
				if m == math.MinInt64 {
					return nil, false
				}
				m = -m
			}
			if m > 0 && n > math.MaxInt64-m || m < 0 && n < math.MinInt64-m {
				return nil, false
			}
			return n + m, true
		}}, nil
	case a.kind == aString && !subtract:
		return &term{shape: a.shape, eval: func(f *frame) (any, bool) {
			x, y, ok := of.both(f)
			if !ok {
				return nil, false
			}
			s := x.(string) + y.(string)
			f.cost += traversal(len(s))
			return s, f.cost <= f.limit
		}}, nil
	}
	return nil, errForeign
}

// in finds a value in a list, or a key in a map.
func in(a, b *term) (*term, error) {
	of, is := pair{a.eval, b.eval}, b.itemKind()
	switch {
	case b.kind == aMap && a.kind == aString && is != foreign:
		return truth(func(f *frame) (any, bool) {
			key, m, ok := of.both(f)
			if !ok {
				return nil, false
			}
			f.cost++
			v, there := m.(map[string]any)[key.(string)]
			if there {
				_, ok = is.read(v)
			}
			return there, ok
		}), nil
	case b.kind == aList && (b.item == nil || equatable(a.shape, b.item)):
		return truth(func(f *frame) (any, bool) {
			x, list, ok := of.both(f)
			if !ok {
				return nil, false
			}
			all := list.([]any)
			f.cost += int64(len(all))
			for _, v := range all {
				if v, ok = is.read(v); !ok {
					return nil, false
				}
				if x == v {
					return true, true
				}
			}
			return false, true
		}), nil
	}
	return nil, errForeign
}

// index is an item of a list, or a value of a map.
func index(a, b *term) (*term, error) {
	of, cost, is := pair{a.eval, b.eval}, selectionCost(a), a.itemKind()
	if a.item == nil || is == foreign {
		return nil, errForeign
	}
	switch {
	case a.kind == aList && b.kind == anInt:
		return &term{shape: a.item, chain: true, eval: func(f *frame) (any, bool) {
			list, at, ok := of.both(f)
			if !ok {
				return nil, false
			}
			f.cost += cost
			all, i := list.([]any), at.(int64)
			if i < 0 || i >= int64(len(all)) {
				return nil, false
			}
			return is.read(all[i])
		}}, nil
	case a.kind == aMap && b.kind == aString:
		return &term{shape: a.item, chain: true, eval: func(f *frame) (any, bool) {
			m, key, ok := of.both(f)
			if !ok {
				return nil, false
			}
			f.cost += cost
			return is.read(m.(map[string]any)[key.(string)])
		}}, nil
	}
	return nil, errForeign
}
