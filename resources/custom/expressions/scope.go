package expressions

import (
	"errors"

	celgo "github.com/google/cel-go/common"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// most is the greatest number of variables of an expression at a time.
const most = 8

// The first variables. The variables of folds follow.
const (
	self = iota
	oldSelf
)

// frame is the state of one evaluation.
type frame struct {
	variables [most]any
	// cost is the cost so far, and limit its bound, which loops check.
	cost, limit int64
	// done is closed when the request is over; nil: it never is. turns counts the iterations of loops.
	done  <-chan struct{}
	turns uint
}

// over reports whether the request is over.
func (f *frame) over() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// interrupted is over for each iteration of a loop. As upstream, it looks every CheckFrequency iterations only: an iteration costs little
// more than that.
func (f *frame) interrupted() bool {
	f.turns++
	return f.turns%celconfig.CheckFrequency == 0 && f.over()
}

// eval evaluates an expression. ok is false when there is no value, the limit is reached, or the request is over.
type eval func(f *frame) (v any, ok bool)

// term is a compiled expression.
type term struct {
	*shape
	eval eval
	// constant: the term has this value, and eval returns it at no cost.
	constant bool
	value    any
	// chain: cel-go counts the term and selections from it as one attribute.
	chain bool
}

// errForeign says that an expression is left to upstream.
var errForeign = errors.New("the expression is not covered")

// scope has the variables of an expression, by name.
type scope struct {
	outer *scope
	name  string
	slot  int
	shape *shape
}

func (s *scope) find(name string) *scope {
	for ; s != nil; s = s.outer {
		if s.name == name {
			return s
		}
	}
	return nil
}

// with is the scope with one more variable.
func (s *scope) with(name string, of *shape) (*scope, error) {
	inner := &scope{outer: s, name: name, slot: s.slot + 1, shape: of}
	if inner.slot >= most || of == nil || s.find(name) != nil {
		return nil, errForeign
	}
	return inner, nil
}

// The units of CEL's costs.
const (
	selection  = celgo.SelectAndIdentCost
	listOfNone = celgo.ListCreateBaseCost
	mapOfNone  = celgo.MapCreateBaseCost
)

// traversal is the cost of reading n bytes of text.
func traversal(n int) int64 { return (int64(n) + 9) / 10 } // StringTraversalCostFactor is 0.1

// expressionCost is the factor that a regular expression of n bytes costs.
func expressionCost(n int) int64 { return (int64(n) + 3) / 4 } // RegexStringLengthCostFactor is 0.25
