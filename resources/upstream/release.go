package upstream

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

// Release is the release whose API is served: the version of the k8s.io/kubernetes module in go.mod, which has the rules.
const Release = "v1.37.1"

// Major is the first part of Release.
const Major = 1

// Minor is the second part of Release: deprecations of a later release do not apply yet.
const Minor = 37

// minCompatibilityMinor is the oldest minor release that could be emulated, as kube-apiserver reports it.
const minCompatibilityMinor = Minor - 1

// reported is the version of a build that a distributor sets (--version=vX.Y.Z-own), or nil.
var reported atomic.Pointer[string]

// ValidateVersion checks that v may be reported as the version of this build: another build of Release. The errors are those of
// ValidateDynamicVersion of k8s.io/component-base/version, which knows the release only if the linker sets it.
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

// ReportVersion makes Version name another build of Release, as kube-apiserver does by --version=vX.Y.Z-own. The process has one
// version.
func ReportVersion(v string) { reported.Store(&v) }

// gitVersion is the version of the build.
func gitVersion() string {
	if v := reported.Load(); v != nil {
		return *v
	}
	return Release
}

// Version returns the answer of /version. It names no commit: a client would look for it in Kubernetes' repository.
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
