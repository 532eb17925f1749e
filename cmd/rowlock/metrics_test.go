package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	base "k8s.io/component-base/metrics"

	"github.com/rowlock/rowlock/resources/upstream"
)

// The flags and the manifest limit Rowlock's metrics and upstream's; /flagz shows the flags as they were given.
func TestMetricsAreLimited(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "labels.yaml")
	if err := os.WriteFile(manifest, []byte("rowlock_store_events_total,op: update,delete\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--data-dir", t.TempDir(), "--allow-metric-labels-manifest", manifest, "--disabled-metrics", "rowlock_store_watchers",
		"--show-hidden-metrics-for-version", fmt.Sprintf("%d.%d", upstream.Major, upstream.Minor-1))
	whoami(t, p.as(t, robot(t, p.client(t))()))
	metrics := p.path(t, "/metrics")
	if !strings.Contains(metrics, `rowlock_store_events_total{op="unexpected"} `) || strings.Contains(metrics, `op="create"`) {
		t.Error("the manifest is not followed")
	}
	if strings.Contains(metrics, "rowlock_store_watchers") {
		t.Error("what was disabled is shown")
	}
	if !strings.Contains(metrics, `authentication_token_cache_request_total{status="miss"} `) {
		t.Error("the cache of tokens is not counted")
	}
	if strings.Contains(metrics, "\ndisabled_metrics_total 0\n") || !base.ShouldShowHidden() {
		t.Error("upstream does not know of it")
	}
	flags := p.path(t, "/flagz")
	for _, line := range []string{"allow-metric-labels=[]", "allow-metric-labels-manifest=" + manifest} {
		if !strings.Contains(flags, "\n"+line+"\n") {
			t.Errorf("/flagz does not show %s", line)
		}
	}
}

// Addresses and node ports of Services are counted as in kube-apiserver: the requested ones, and those that the store has as taken.
func TestAllocationsOfServicesAreCounted(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--service-cluster-ip-range", "10.99.0.0/24", "--service-node-port-range", "30100-30109")
	services := p.client(t).CoreV1().Services("default")
	create := func(name, ip string, port int32, refused bool) {
		t.Helper()
		_, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip,
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}}}, metav1.CreateOptions{})
		if (err != nil) != refused {
			t.Fatal(err)
		}
	}
	gateways := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.99.0.77"}, Spec: networkingv1.IPAddressSpec{
		ParentRef: &networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: "default", Name: "g"}}}
	before := p.path(t, "/metrics")
	if _, err := p.client(t).NetworkingV1().IPAddresses().Create(t.Context(), gateways, metav1.CreateOptions{}); err != nil { // not for a Service
		t.Fatal(err)
	}
	for _, nothing := range []corev1.ServiceSpec{{}, {ClusterIP: "10.99.0.201"}, {Ports: []corev1.ServicePort{{Port: 80, NodePort: 30102}}}, {ClusterIP: "10.98.0.1"}} {
		if nothing.Type = corev1.ServiceTypeNodePort; nothing.Ports == nil {
			nothing.Ports = []corev1.ServicePort{{Port: 80}}
		}
		_, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "dry"}, Spec: nothing}, metav1.CreateOptions{DryRun: []string{"All"}})
		if (err != nil) != (nothing.ClusterIP == "10.98.0.1") {
			t.Fatal(err)
		}
	}
	create("b", "10.99.0.200", 30101, false) // before the Services that get free ones
	create("a", "", 0, false)
	create("c", "10.99.0.200", 0, true)
	create("d", "", 30101, true)
	const more = `{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"type":"NodePort","ports":[{"port":81,"name":"more"},{"port":80,"name":"b"}]}}`
	for name, kind := range map[string]types.PatchType{"b": types.StrategicMergePatchType, "e": types.ApplyPatchType} { // one of them is new
		if _, err := services.Patch(t.Context(), name, kind, fmt.Appendf(nil, more, name), metav1.PatchOptions{FieldManager: "m", DryRun: []string{"All"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := services.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	after := p.path(t, "/metrics")
	of := `{cidr="10.99.0.0/24"`
	for name, want := range map[string]int{ // the first count is the Service kubernetes
		"kube_apiserver_clusterip_allocator_allocated_ips" + of + "}":                          1,
		"kube_apiserver_clusterip_allocator_available_ips" + of + "}":                          -1,
		"kube_apiserver_nodeport_allocator_allocated_ports":                                    1,
		"kube_apiserver_nodeport_allocator_available_ports":                                    -1,
		"kube_apiserver_clusterip_allocator_allocation_total" + of + `,scope="dynamic"}`:       2, // d released its address
		"kube_apiserver_clusterip_allocator_allocation_total" + of + `,scope="static"}`:        1,
		"kube_apiserver_clusterip_allocator_allocation_errors_total" + of + `,scope="static"}`: 1,
		"kube_apiserver_clusterip_allocator_allocation_duration_seconds_count" + of + "}":      3,
		`kube_apiserver_nodeport_allocator_allocation_total{scope="dynamic"}`:                  1,
		`kube_apiserver_nodeport_allocator_allocation_total{scope="static"}`:                   1,
		`kube_apiserver_nodeport_allocator_allocation_errors_total{scope="static"}`:            1,
	} {
		if got := valueIn(t, after, name) - valueIn(t, before, name); got != float64(want) {
			t.Errorf("%s went up by %v, want %d", name, got, want)
		}
	}
	if got := valueIn(t, after, "kube_apiserver_nodeport_allocator_available_ports"); got != 9 {
		t.Errorf("%v ports are left of 10", got)
	}
}

// valueIn returns the value of a series, 0 if there is none.
func valueIn(t *testing.T, metrics, series string) float64 {
	t.Helper()
	_, rest, found := strings.Cut(metrics, "\n"+series+" ")
	if !found {
		return 0
	}
	text, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// All metrics of a server name it by the hash of its ID, which is the name of its Lease.
func TestServerIDInMetrics(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte("apiVersion: apiserver.config.k8s.io/v1\n"+content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	p := start(t, "--data-dir", filepath.Join(dir, "data"),
		"--authentication-config", file("authentication", "kind: AuthenticationConfiguration\n"),
		"--authorization-config", file("authorization", "kind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}]\n"),
		"--encryption-provider-config", file("encryption", "kind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{identity: {}}]}]\n"),
		"--admission-control-config-file", file("admission", "kind: AdmissionConfiguration\nplugins: [{name: ValidatingAdmissionWebhook, configuration: "+
			"{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: "+t.TempDir()+"}}]\n"))
	var id string
	until(t, "the server's Lease", func() bool {
		leases, err := p.client(t).CoordinationV1().Leases(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity"})
		if err == nil && len(leases.Items) > 0 {
			id = leases.Items[0].Name
		}
		return id != ""
	})
	metrics, label := p.path(t, "/metrics"), fmt.Sprintf(`apiserver_id_hash="sha256:%x"`, sha256.Sum256([]byte(id)))
	for _, name := range []string{"authentication", "authorization", "encryption", "manifest_admission"} {
		if series := "\napiserver_" + name + "_config_controller_last_config_info{" + label; !strings.Contains(metrics, series) {
			t.Errorf("no series begins with %s", series)
		}
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}
