package upstreamtest

import (
	"testing"

	"k8s.io/kubernetes/pkg/capabilities"
)

// LimitConnections bounds connections that are passed on, in bytes per second, until a test ends: outside of tests this is set once in a process.
func LimitConnections(t testing.TB, bytesPerSecond int64) {
	t.Helper()
	before := capabilities.Get()
	capabilities.ResetForTest()
	capabilities.Setup(before.AllowPrivileged, bytesPerSecond)
	t.Cleanup(func() {
		capabilities.ResetForTest()
		capabilities.Initialize(before)
	})
}
