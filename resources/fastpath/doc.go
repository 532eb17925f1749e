// Package fastpath is the list of the fast paths: where Rowlock does in a tenth of the time what code of upstream's, or plain
// code, would do as well. A fast path may only say "valid": what it does not cover, or would refuse, goes the plain way, which
// finds the words of a refusal. Each has a switch, a counter of what went the plain way although it was on, and a test that
// compares it with the plain way (docs/fast-paths.md).
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
//	fastpath.go  what a fast path is, and the choice of those that are on
//	paths.go     all of them
package fastpath
