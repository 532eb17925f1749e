// Package fastpath is the list of the fast paths: places where Rowlock does in a tenth of the time what upstream's code, or
// plain code, would do as well. The only definite answer of a fast path is "valid": what it does not cover, or would refuse,
// goes the plain way, which words the refusal. Each has a switch, a counter of the cases that went the plain way although it
// was on, and a test that compares it with the plain way (docs/fast-paths.md).
//
//	if fastpath.MergePatch.On() {
//		if out, ok := quick(in); ok {
//			return out
//		}
//		fastpath.MergePatch.Fallback()
//	}
//	return plain(in)
//
// Answers do not depend on switches, which may change at any time. A test that asserts that a fast path was taken turns it on
// for itself:
//
//	t.Cleanup(fastpath.MergePatch.Turn(true))
//
//	fastpath.go  the type of a fast path, and the choice of those that are on
//	paths.go     all of them
package fastpath
