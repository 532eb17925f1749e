// Package expressions finds out whether a custom resource keeps the rules in CEL of its schema (x-kubernetes-validations), in a
// tenth of the time that cel-go takes: the common part of CEL is compiled to closures over JSON as it was decoded.
//
// It may only say that all rules hold. An expression that fails, for whatever reason, ends it: upstream's validator is asked then,
// and has the words. So a closure has a value or none, and no error is ever absorbed, as && and || of CEL do.
//
// What an evaluation costs in CEL's units is counted, never less than cel-go counts (TestAgreesWithUpstream): where the sum is within
// upstream's limits, so is what upstream would have counted.
//
// Covered are has, selections, indexes, size, comparisons of scalars of one type, in, all, exists, exists_one, filter, map, boolean
// operators, ternaries, sums of whole numbers and texts, matches and a few functions of texts, durations made of texts, and transition
// rules without optionalOldSelf. A rule that has anything else is left to upstream (Rules.Rest).
//
//	rules.go       the rules of a schema, and how an object is held against them
//	compile.go     an expression becomes a closure; scope.go: what it is made in
//	shape.go       what is known of a value before there is one
//	operators.go, functions.go, fold.go   what expressions are made of
package expressions
