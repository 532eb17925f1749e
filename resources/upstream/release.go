package upstream

import (
	"runtime"
	"strconv"

	"k8s.io/apimachinery/pkg/version"
)

// Release is the release whose API is served: that of the k8s.io/kubernetes module in go.mod, which brings the rules.
const Release = "v1.37.1"

// Major is the first part of Release.
const Major = 1

// Minor is the second part of Release: what is deprecated in a later release than this is not yet.
const Minor = 37

// minCompatibilityMinor is the oldest minor release that could be emulated, as kube-apiserver reports it.
const minCompatibilityMinor = Minor - 1

// Version returns what /version answers. It names no commit: a client would look for it in Kubernetes' repository.
func Version() version.Info {
	major, minor := strconv.Itoa(Major), strconv.Itoa(Minor)
	return version.Info{
		Major: major, Minor: minor,
		EmulationMajor: major, EmulationMinor: minor,
		MinCompatibilityMajor: major, MinCompatibilityMinor: strconv.Itoa(minCompatibilityMinor),
		GitVersion: Release,
		BuildDate:  "1970-01-01T00:00:00Z",
		GoVersion:  runtime.Version(),
		Compiler:   runtime.Compiler,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}
