package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
)

// controllerRuntimePackages are those of controller-runtime whose tests start a server.
var controllerRuntimePackages = []string{"builder", "cache", "client", "client/apiutil", "cluster", "controller",
	"controller/controllerutil", "envtest", "handler", "internal/controller", "internal/recorder", "internal/testing/controlplane",
	"manager", "manager/internal/integration", "metrics/filters", "reconcile", "source", "webhook"}

// controllerRuntimeOldServer are the subtests of client/apiutil for a server without aggregated discovery: they download one.
const controllerRuntimeOldServer = "^(TestApiMachinery|TestLazyRestMapperProvider)$/^aggregatedDiscovery=false$"

// controllerRuntimeSkips are the specs of those packages that are left out, and why.
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

// TestControllerRuntime runs controller-runtime's own tests, as its published module has them. Their servers have stores
// of their own, whatever database the other tests are on: it takes minutes, and once is enough.
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
	// Two of them serve metrics at the default port, for whose release one that comes later does not wait: it waits for ever for what
	// a manager does that was not started.
	args := []string{"test", "-count=1", "-skip=" + controllerRuntimeOldServer,
		"-ldflags=-X=sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=127.0.0.1:0"}
	for _, name := range controllerRuntimePackages {
		args = append(args, "sigs.k8s.io/controller-runtime/pkg/"+name)
	}
	// They are as patient as upstream's machines allow; ours may be busier.
	args = append(args, "-ginkgo.no-color", "-ginkgo.flake-attempts=3", "-ginkgo.skip="+strings.Join(skips, "|"))
	cmd := exec.CommandContext(t.Context(), compiler, args...)
	temporary := t.TempDir()
	cmd.Dir = filepath.Join(harness.Root(), "e2e", "peers", "controllerruntime")
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "TMPDIR="+temporary, "PATH="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	left, err := filepath.Glob(filepath.Join(temporary, "rowlock-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
