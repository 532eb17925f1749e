package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
)

// controllerRuntimePackages are controller-runtime's packages whose tests start a server.
var controllerRuntimePackages = []string{"builder", "cache", "client", "client/apiutil", "cluster", "controller",
	"controller/controllerutil", "envtest", "handler", "internal/controller", "internal/recorder", "internal/testing/controlplane",
	"manager", "manager/internal/integration", "metrics/filters", "reconcile", "source", "webhook"}

// controllerRuntimeOldServer are the subtests of client/apiutil for a server without aggregated discovery: they download one.
const controllerRuntimeOldServer = "^(TestApiMachinery|TestLazyRestMapperProvider)$/^aggregatedDiscovery=false$"

// controllerRuntimeSkips are the skipped specs of those packages, with the reasons.
var controllerRuntimeSkips = map[string][]string{
	"they run a script which a module has without the right to be run": {
		"argument defaulting when insecure serving is set, on a binary that supports it",
		"argument defaulting when insecureserving is disabled, on binaries with",
	},
	"they expect that an informer takes longer to fill than the test takes to look": {
		"should allow .* informer .*to be cancelled",
		"should return an error when context is cancelled",
	},
}

// controllerRuntimeAttempts is how often a spec may be tried.
const controllerRuntimeAttempts = 3

// failedPackage matches go test's line about a package that failed.
var failedPackage = regexp.MustCompile(`(?m)^FAIL\t(\S+)`)

// TestControllerRuntime runs controller-runtime's own tests from its published module. Their servers have stores of their own, whatever database the
// other tests use. It takes minutes, and once is enough.
func TestControllerRuntime(t *testing.T) {
	if database.url != "" {
		return
	}
	// Before envtestAssets changes PATH.
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	assets := envtestAssets(t)
	var skips []string
	for _, specs := range controllerRuntimeSkips {
		skips = append(skips, specs...)
	}
	temporary := t.TempDir()
	run := func(packages []string) (string, error) {
		// Two of them serve metrics at the default port, and a later one does not wait for its release: it then waits for ever for work of a manager that
		// was not started.
		args := append([]string{"test", "-count=1", "-skip=" + controllerRuntimeOldServer,
			"-ldflags=-X=sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=127.0.0.1:0"}, packages...)
		// Their timeouts fit upstream's machines; ours may be busier.
		args = append(args, "-ginkgo.no-color", "-ginkgo.flake-attempts="+strconv.Itoa(controllerRuntimeAttempts), "-ginkgo.skip="+strings.Join(skips, "|"))
		cmd := exec.CommandContext(t.Context(), compiler, args...)
		cmd.Dir = filepath.Join(harness.Root(), "e2e", "peers", "controllerruntime")
		cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "TMPDIR="+temporary, "PATH="+path)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	packages := make([]string, len(controllerRuntimePackages))
	for i, name := range controllerRuntimePackages {
		packages[i] = "sigs.k8s.io/controller-runtime/pkg/" + name
	}
	out, err := run(packages)
	// Ginkgo cannot retry a spec that fails in a goroutine of its own. The specs of webhook do so when they listen before the previous one has stopped:
	// that ends all of the package's tests.
	for n := 1; err != nil && n < controllerRuntimeAttempts && strings.Contains(out, "Your Test Panicked"); n++ {
		t.Logf("once more, because of %s", out)
		var failed []string
		for _, match := range failedPackage.FindAllStringSubmatch(out, -1) {
			failed = append(failed, match[1])
		}
		if len(failed) == 0 {
			break
		}
		out, err = run(failed)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	left, err := filepath.Glob(filepath.Join(temporary, "rowlock-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
