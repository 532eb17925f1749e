// Package plan does with the objects of a custom resource, along a plan that is compiled from its schema once, what upstream's
// packages do by walking the schema anew: it finds out whether an object is valid, and it prunes and defaults objects.
//
// A plan may only say that an object is valid. What it does not cover, or would refuse, is upstream's to judge, which has the words
// for it: apiextensions' schema validator, list types and embedded objects. Upstream's behaviour is followed down to its oddities
// wherever the plan has an opinion; where the oddity is not worth it (a number in an enum, multipleOf, a float where an integer
// belongs) the plan has none.
//
//	node.go      what a plan is made of
//	compile.go   a plan of a schema; stored.go, of its text
//	intern.go    nodes that say the same are one, whatever definitions they are of
//	check.go     is it valid? scalar.go, list.go: of values that are no objects
//	complete.go  pruning, nulls and defaults
package plan
