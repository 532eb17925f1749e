package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/e2e/harness"
)

// wantExtensions builds the aggregated API servers, or skips the test, which `make extensions` runs: they take minutes to build.
func wantExtensions(t *testing.T, binaries ...string) {
	t.Helper()
	if os.Getenv("E2E_EXTENSIONS") == "" {
		t.Skip("`make extensions` runs this")
	}
	if err := harness.Build(t.Context(), binaries...); err != nil {
		t.Fatal(err)
	}
}

// register creates APIServices for versions of a group, which a server at a port of this machine serves, and waits until they are available. They are
// deleted with the test.
func register(t *testing.T, group string, port int, versions ...string) {
	t.Helper()
	namespace := newNamespace(t)
	kubectl{namespace: namespace, stdin: `{apiVersion: v1, kind: Service, metadata: {name: api}, spec: {type: ExternalName, externalName: localhost}}`}.
		run(t, "apply", "-f", "-")
	for _, version := range versions {
		name := version + "." + group
		kubectl{stdin: fmt.Sprintf(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: %s}, spec: {group: %s, version: %s,
  insecureSkipTLSVerify: true, groupPriorityMinimum: 1000, versionPriority: 15, service: {name: api, namespace: %s, port: %d}}}`,
			name, group, version, namespace, port)}.run(t, "apply", "-f", "-")
		dropAfter(t, "/apis/apiregistration.k8s.io/v1/apiservices/"+name)
		kubectl{}.run(t, "wait", "--for=condition=Available", "--timeout=60s", "apiservice/"+name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	await(ctx, t, "discovery of "+group, func() (bool, error) {
		return kubectl{}.run(t, "api-resources", "--cached=false", "--no-headers", "--api-group", group) != "", nil
	})
}

// dropAfter deletes the object at a path when the test ends.
func dropAfter(t *testing.T, path string) {
	t.Helper()
	t.Cleanup(func() {
		if err := shared.client.CoreV1().RESTClient().Delete().AbsPath(path).Do(context.WithoutCancel(t.Context())).Error(); err != nil {
			t.Errorf("delete %s: %v", path, err)
		}
	})
}

// TestSampleAPIServer uses the API of Kubernetes' own example of such a server: writes, watches, explanations, and deletion with the namespace.
func TestSampleAPIServer(t *testing.T) {
	wantExtensions(t, "sample-apiserver", "etcd")
	sample, err := harness.StartSampleAPIServer(t.Context(), shared.kubeconfig, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sample.Stop)
	const group = "wardle.example.com"
	register(t, group, sample.Port, "v1alpha1", "v1beta1")
	namespace := unique("flunders")
	kubectl{}.run(t, "create", "namespace", namespace)
	k := kubectl{namespace: namespace}
	flunder := func(name, version, spec string) kubectl {
		return kubectl{namespace: namespace, stdin: fmt.Sprintf(`{apiVersion: %s/%s, kind: Flunder, metadata: {name: %s, labels: {a: b}}, spec: %s}`, group, version, name, spec)}
	}
	flunder("one", "v1alpha1", `{reference: other, referenceType: Flunder}`).run(t, "create", "-f", "-")
	for range 2 {
		flunder("two", "v1beta1", `{fischerReference: other, referenceType: Fischer}`).run(t, "apply", "--server-side", "-f", "-")
	}
	wants(t, k.run(t, "get", "flunders", "-o", "name"), "flunder."+group+"/one", "flunder."+group+"/two")
	wants(t, k.run(t, "get", "flunders.v1beta1."+group, "one", "-o", "jsonpath={.spec}"), `"flunderReference":"other"`)
	wants(t, k.run(t, "get", "flunders.v1alpha1."+group, "two", "-o", "jsonpath={.spec}"), `"referenceType":"Fischer"`)
	wants(t, k.run(t, "explain", "flunders.spec", "--api-version", group+"/v1alpha1"), "referenceType")
	k.run(t, "label", "flunder", "one", "seen=yes")
	wants(t, k.run(t, "get", "flunders", "-l", "seen=yes", "-o", "name"), "/one")
	wants(t, k.run(t, "auth", "can-i", "create", "flunders."+group), "yes")
	if _, stderr, err := k.try(t, "get", "flunders", "--as", "nobody"); err == nil || !strings.Contains(stderr, `User "nobody" cannot list resource "flunders"`) {
		t.Errorf("who may do nothing: %v %s", err, stderr)
	}
	kubectl{stdin: fmt.Sprintf(`{apiVersion: %s/v1alpha1, kind: Fischer, metadata: {name: strict}, disallowedFlunders: [three]}`, group)}.run(t, "create", "-f", "-")
	dropAfter(t, "/apis/"+group+"/v1alpha1/fischers/strict")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	await(ctx, t, "the Fischer in the informer of the server", func() (bool, error) {
		_, stderr, err := flunder("three", "v1alpha1", "{}").try(t, "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(stderr, "this name may not be used"), nil
	})
	watching := k.command(ctx, "get", "flunders", "--watch", "--output-watch-events", "--no-headers")
	events, err := watching.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watching.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(events)
	for _, event := range []string{"ADDED", "ADDED", "DELETED", "DELETED"} {
		for !lines.Scan() || !strings.HasPrefix(lines.Text(), event) {
			if lines.Err() != nil || lines.Text() == "" {
				t.Fatalf("the watch has ended before %s: %v", event, lines.Err())
			}
		}
		if event == "ADDED" && strings.Contains(lines.Text(), "two") {
			kubectl{}.run(t, "delete", "namespace", namespace, "--wait=false")
		}
	}
	cancel() // the watch goes on, in a deleted namespace
	_ = watching.Wait()
	kubectl{}.run(t, "wait", "--for=delete", "--timeout=60s", "namespace/"+namespace)
	wants(t, kubectl{}.run(t, "get", "flunders", "-A", "-o", "name"), "")
}

// kubelet answers like the kubelet of a node with a pod: with its usage at the time of the request.
func kubelet(t *testing.T, namespace string) int {
	t.Helper()
	began := time.Now()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics/resource" {
			http.NotFound(w, r)
			return
		}
		now := time.Now()
		ms, used := now.UnixMilli(), now.Sub(began).Seconds()
		pod := fmt.Sprintf(`container="c",namespace=%q,pod="busy"`, namespace)
		fmt.Fprintf(w, "node_cpu_usage_seconds_total %f %d\nnode_memory_working_set_bytes 1073741824 %d\n", 100+used, ms, ms)
		fmt.Fprintf(w, "container_start_time_seconds{%s} %d %d\n", pod, began.Add(-time.Hour).Unix(), ms)
		fmt.Fprintf(w, "container_cpu_usage_seconds_total{%s} %f %d\ncontainer_memory_working_set_bytes{%s} 67108864 %d\n", pod, 10+used/2, ms, pod, ms)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// TestMetricsServer checks that `kubectl top` shows metrics-server's data from the kubelet of a node, which uses one CPU, half of it by a pod.
func TestMetricsServer(t *testing.T) {
	wantExtensions(t, "metrics-server")
	namespace := newNamespace(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unique("node")}}
	if _, err := shared.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dropAfter(t, "/api/v1/nodes/"+node.Name)
	node.Status = corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		Capacity:    corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi")},
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	if _, err := shared.client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "busy"}, Spec: corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	pod, err := shared.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning // it looks at no other pods
	if _, err := shared.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	server, err := harness.StartMetricsServer(t.Context(), shared.kubeconfig, t.TempDir(), kubelet(t, namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	register(t, "metrics.k8s.io", server.Port, "v1beta1")
	top := strings.Fields(kubectl{}.run(t, "top", "node", node.Name, "--no-headers"))
	if len(top) != 5 || !strings.HasSuffix(top[1], "m") || len(top[1]) < 4 || top[2] != "25%" && top[2] != "24%" && top[2] != "26%" || top[3] != "1024Mi" || top[4] != "25%" {
		t.Errorf("the node uses %q\n%s", top, server.Output())
	}
	pods := strings.Fields(kubectl{namespace: namespace}.run(t, "top", "pod", "busy", "--containers", "--no-headers"))
	if len(pods) != 4 || pods[0] != "busy" || pods[1] != "c" || !strings.HasSuffix(pods[2], "m") || pods[3] != "64Mi" {
		t.Errorf("the pod uses %q\n%s", pods, server.Output())
	}
	wants(t, kubectl{namespace: namespace}.run(t, "get", "podmetrics", "-o", "name"), "podmetrics.metrics.k8s.io/busy")
}
