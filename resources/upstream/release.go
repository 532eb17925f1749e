package upstream

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"

	utilversion "k8s.io/apimachinery/pkg/util/version"
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

// reported is the version of a build that a distributor names (--version=vX.Y.Z-own), or nil.
var reported atomic.Pointer[string]

// ValidateVersion tells whether v may be reported as the version of this build: another build of Release, in the words of
// k8s.io/component-base/version, ValidateDynamicVersion, which knows the release only where the linker was told.
func ValidateVersion(v string) error {
	own, err := utilversion.ParseSemantic(v)
	if err != nil {
		return err
	}
	release := utilversion.MustParseSemantic(Release)
	if own.Major() != release.Major() || own.Minor() != release.Minor() || own.Patch() != release.Patch() {
		return fmt.Errorf("version %q must match major/minor/patch of default version %q", v, Release)
	}
	return nil
}

// ReportVersion has Version name another build of Release, as kube-apiserver does by --version=vX.Y.Z-own. The process has one version.
func ReportVersion(v string) { reported.Store(&v) }

// gitVersion is the version of the build.
func gitVersion() string {
	if v := reported.Load(); v != nil {
		return *v
	}
	return Release
}

// Version returns what /version answers. It names no commit: a client would look for it in Kubernetes' repository.
func Version() version.Info {
	major, minor := strconv.Itoa(Major), strconv.Itoa(Minor)
	return version.Info{
		Major: major, Minor: minor,
		EmulationMajor: major, EmulationMinor: minor,
		MinCompatibilityMajor: major, MinCompatibilityMinor: strconv.Itoa(minCompatibilityMinor),
		GitVersion: gitVersion(),
		BuildDate:  "1970-01-01T00:00:00Z",
		GoVersion:  runtime.Version(),
		Compiler:   runtime.Compiler,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}
