package upstream

import "k8s.io/kubernetes/pkg/capabilities"

// SetCapabilities sets whether Pods may have privileged containers, and how many bytes per second a connection that is upgraded for a client of a
// node, Pod or Service may pass on (0: no limit). Upstream's validation and connections read both from a variable. Only the first call in a process
// has an effect.
func SetCapabilities(privileged bool, bytesPerSecond int64) {
	capabilities.Setup(privileged, bytesPerSecond)
}

// ConnectionRate is the second of these.
func ConnectionRate() int64 { return capabilities.Get().PerConnectionBandwidthLimitBytesPerSec }
