package expressions

import (
	"errors"

	celgo "github.com/google/cel-go/common"
)

// most is how many variables an expression may have at a time.
const most = 8

// The first variables. Those of folds come after them.
const (
	self = iota
	oldSelf
)

// frame is one evaluation.
type frame struct {
	variables [most]any
	// cost is what was counted of late, and limit the most that it may be; it is looked at where something is repeated.
	cost, limit int64
}

// eval evaluates an expression. It is not ok when there is no value, or the limit is reached.
type eval func(f *frame) (v any, ok bool)

// term is a compiled expression.
type term struct {
	*shape
	eval eval
	// constant: it has this value, and eval says so at no cost.
	constant bool
	value    any
	// chain: cel-go counts it, and what is selected of it, as one attribute.
	chain bool
}

// errForeign is why an expression is left to upstream.
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

// with is the scope with one variable more.
func (s *scope) with(name string, of *shape) (*scope, error) {
	inner := &scope{outer: s, name: name, slot: s.slot + 1, shape: of}
	if inner.slot >= most || of == nil || s.find(name) != nil {
		return nil, errForeign
	}
	return inner, nil
}

// The units in which CEL counts.
const (
	selection  = celgo.SelectAndIdentCost
	listOfNone = celgo.ListCreateBaseCost
	mapOfNone  = celgo.MapCreateBaseCost
)

// traversal is the cost of reading n bytes of text.
func traversal(n int) int64 { return (int64(n) + 9) / 10 } // StringTraversalCostFactor is 0.1

// expressionCost is the factor that a regular expression of n bytes costs.
func expressionCost(n int) int64 { return (int64(n) + 3) / 4 } // RegexStringLengthCostFactor is 0.25
