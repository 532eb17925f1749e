// Package version says which Kubernetes this program speaks.
package version

import (
	"runtime"
	"strconv"

	"k8s.io/apimachinery/pkg/version"
)

// Kubernetes is the release whose API is served: that of the k8s.io/kubernetes module in go.mod, which brings the rules.
const Kubernetes = "v1.37.1"

// Major is the first part of Kubernetes.
const Major = 1

// Minor is the second part of Kubernetes: what is deprecated in a later release than this is not yet.
const Minor = 37

// minCompatibilityMinor is the oldest minor release that could be emulated, as kube-apiserver reports it.
const minCompatibilityMinor = Minor - 1

// Info returns what /version answers. It names no commit: a client would look for it in Kubernetes' repository.
func Info() version.Info {
	major, minor := strconv.Itoa(Major), strconv.Itoa(Minor)
	return version.Info{
		Major: major, Minor: minor,
		EmulationMajor: major, EmulationMinor: minor,
		MinCompatibilityMajor: major, MinCompatibilityMinor: strconv.Itoa(minCompatibilityMinor),
		GitVersion: Kubernetes,
		BuildDate:  "1970-01-01T00:00:00Z",
		GoVersion:  runtime.Version(),
		Compiler:   runtime.Compiler,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}
