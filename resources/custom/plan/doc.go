// Package plan processes objects of a custom resource along a plan that is compiled from its schema once; upstream's packages walk
// the schema each time. It determines whether an object is valid, and prunes and defaults objects.
//
// The only definite verdict of a plan is that an object is valid. Upstream decides what the plan does not cover or would refuse, and
// words the errors: apiextensions' schema validator, list types and embedded objects. The plan follows upstream's behaviour down to its
// oddities wherever it has a verdict; where the oddity is not worth it (a number in an enum, multipleOf, a float where an integer
// belongs) it has none.
//
//	node.go      the nodes of a plan
//	compile.go   a plan of a schema; stored.go, of its text
//	intern.go    equal nodes are shared, also between definitions
//	check.go     validation; scalar.go, list.go: of values that are not objects
//	complete.go  pruning, nulls and defaults
package plan
