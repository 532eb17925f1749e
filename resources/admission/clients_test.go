package admission

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestWhatPluginsAsk finds in the source of the plugins which types they ask for: from informers (storeInformers has these
// groups, and nil for all others), and from the client (server's pluginClient, likewise). A new one would be a nil pointer, in
// the worst case at the first request that needs it.
func TestWhatPluginsAsk(t *testing.T) {
	informer := regexp.MustCompile(`\.(\w+)\(\)\.(V\d\w*)\(\)\.(\w+)\(\)`)
	client := regexp.MustCompile(`\.([A-Z][a-z]\w*V\d\w*)\(\)\.(\w+)\(`)
	informers, clients, packages := map[string]bool{}, map[string]bool{}, 0
	asking := []string{"k8s.io/kubernetes/pkg/quota/v1", "k8s.io/pod-security-admission/admission", // packages that two of them use
		"k8s.io/apiserver/pkg/admission/configuration"} // package that webhooks use
	imports := upstreamtest.Imports(t, upstreamtest.ParseFile(t, "plugins.go"))
	maps.Copy(imports, upstreamtest.Imports(t, upstreamtest.ParseFile(t, "webhooks.go")))
	for _, pkg := range imports {
		if strings.HasPrefix(pkg, "k8s.io/") && strings.Contains(pkg, "/admission/") && !strings.HasSuffix(pkg, "/initializer") {
			asking = append(asking, pkg)
		}
	}
	for _, pkg := range asking {
		packages++
		upstreamtest.GoFiles(t, upstreamtest.PackageDir(t, pkg), func(name string) {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range informer.FindAllStringSubmatch(string(source), -1) {
				informers[m[1]+"."+m[2]+"."+m[3]] = true
			}
			for _, m := range client.FindAllStringSubmatch(string(source), -1) {
				clients[m[1]+"."+m[2]] = true
			}
		})
	}
	if packages < 19 {
		t.Errorf("%d packages were read", packages)
	}
	wantInformers := []string{"Admissionregistration.V1.MutatingWebhookConfigurations", "Admissionregistration.V1.ValidatingWebhookConfigurations",
		"Core.V1.LimitRanges", "Core.V1.Namespaces", "Core.V1.Nodes", "Core.V1.PersistentVolumeClaims",
		"Core.V1.PersistentVolumes", "Core.V1.Pods", "Core.V1.ResourceQuotas", "Core.V1.ServiceAccounts",
		"Networking.V1.IngressClasses", "Node.V1.RuntimeClasses", "Resource.V1.DeviceClasses", "Resource.V1.ResourceClaims",
		"Scheduling.V1.PriorityClasses", "Storage.V1.CSIDrivers", "Storage.V1.StorageClasses"}
	wantClients := []string{"CoreV1.LimitRanges", "CoreV1.Namespaces", "CoreV1.Pods", "CoreV1.ResourceQuotas", "CoreV1.ServiceAccounts", "NodeV1.RuntimeClasses"}
	if diff := cmp.Diff(wantInformers, slices.Sorted(maps.Keys(informers))); diff != "" {
		t.Errorf("informers (-known +upstream): %s", diff)
	}
	if diff := cmp.Diff(wantClients, slices.Sorted(maps.Keys(clients))); diff != "" {
		t.Errorf("clients (-known +upstream): %s", diff)
	}
}
