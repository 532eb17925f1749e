package e2e

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const webDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "example.com/web:1"}]
---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec:
  selector: {app: web}
  ports: [{port: 80}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {color: blue, size: large}
`

// TestKubectlCreateAndDelete creates objects of several types at once and deletes them again.
func TestKubectlCreateAndDelete(t *testing.T) {
	k := kubectl{namespace: newNamespace(t), stdin: webDeployment}
	wants(t, k.run(t, "create", "-f", "-"), "deployment.apps/web created", "service/web created", "configmap/settings created")
	_, stderr, err := k.try(t, "create", "-f", "-")
	if err == nil {
		t.Error("created twice")
	}
	wants(t, stderr, `Error from server (AlreadyExists): error when creating "STDIN": deployments.apps "web" already exists`,
		`configmaps "settings" already exists`)

	wants(t, k.run(t, "get", "deployments", "-o", "wide"), "READY", "UP-TO-DATE", "SELECTOR", "0/2", "example.com/web:1", "app=web")
	wants(t, k.run(t, "get", "all"), "deployment.apps/web", "service/web", "ClusterIP")
	wants(t, k.run(t, "get", "deploy,cm", "-l", "app=web", "-o", "name"), "deployment.apps/web\nconfigmap/settings\n")
	if got := k.run(t, "get", "cm", "settings", "-o", "jsonpath={.data.color}"); got != "blue" {
		t.Errorf("color is %q", got)
	}
	wants(t, k.run(t, "get", "cm", "--field-selector", "metadata.name=settings"), "settings   2")
	wants(t, k.run(t, "describe", "deployment", "web"), "Name:", "Replicas:", "2 desired", "example.com/web:1")

	wants(t, k.run(t, "delete", "-f", "-"), `deployment.apps "web" deleted`, `service "web" deleted`, `configmap "settings" deleted`)
	_, stderr, err = k.try(t, "get", "deployment", "web")
	if err == nil {
		t.Error("found after delete")
	}
	wants(t, stderr, `Error from server (NotFound): deployments.apps "web" not found`)
	wants(t, k.run(t, "delete", "cm", "settings", "--ignore-not-found"), "")
}

// TestKubectlApply applies on the client's side: create, no change, change, a field left out, diff, prune by delete.
func TestKubectlApply(t *testing.T) {
	namespace := newNamespace(t)
	k := kubectl{namespace: namespace, stdin: webDeployment}
	wants(t, k.run(t, "apply", "-f", "-"), "deployment.apps/web created", "configmap/settings created")
	wants(t, k.run(t, "apply", "-f", "-"), "deployment.apps/web unchanged", "service/web unchanged", "configmap/settings unchanged")
	changed := kubectl{namespace: namespace, stdin: strings.NewReplacer("color: blue, ", "", "web:1", "web:2").Replace(webDeployment)}
	diff, stderr, err := changed.try(t, "diff", "-f", "-")
	if err == nil {
		t.Errorf("no difference found: %s", stderr)
	}
	wants(t, diff, "-  color: blue", `+      - image: example.com/web:2`)
	wants(t, changed.run(t, "apply", "-f", "-"), "deployment.apps/web configured", "service/web unchanged", "configmap/settings configured")
	if out := k.run(t, "get", "cm", "settings", "-o", "jsonpath={.data}"); out != `{"size":"large"}` {
		t.Errorf("data is %s: a field that was left out stays", out)
	}
	if out := changed.run(t, "diff", "-f", "-"); out != "" {
		t.Errorf("differs from what was applied:\n%s", out)
	}
}

// TestKubectlServerSideApply applies on the server's side: ownership, conflict, force, a field left out.
func TestKubectlServerSideApply(t *testing.T) {
	namespace := newNamespace(t)
	k := kubectl{namespace: namespace, stdin: webDeployment}
	wants(t, k.run(t, "apply", "--server-side", "-f", "-"), "deployment.apps/web serverside-applied", "configmap/settings serverside-applied")
	other := kubectl{namespace: namespace, stdin: strings.Replace(webDeployment, "color: blue", "color: red", 1)}
	_, stderr, err := other.try(t, "apply", "--server-side", "--field-manager=other", "-f", "-")
	if err == nil {
		t.Error("no conflict")
	}
	wants(t, stderr, `Apply failed with 1 conflict: conflict with "kubectl": .data.color`)
	other.run(t, "apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-")
	if got := k.run(t, "get", "cm", "settings", "-o", "jsonpath={.data.color}"); got != "red" {
		t.Errorf("color is %q", got)
	}
	// Both manage size, only other manages color: leaving out color removes it, leaving out size does not.
	bare := kubectl{namespace: namespace, stdin: strings.Replace(webDeployment, "{color: blue, size: large}", "{shape: round}", 1)}
	bare.run(t, "apply", "--server-side", "--field-manager=other", "-f", "-")
	if got := k.run(t, "get", "cm", "settings", "-o", "jsonpath={.data}"); got != `{"shape":"round","size":"large"}` {
		t.Errorf("data is %s", got)
	}
}

// TestKubectlChange changes one object in each of kubectl's ways.
func TestKubectlChange(t *testing.T) {
	namespace := newNamespace(t)
	k := kubectl{namespace: namespace, stdin: webDeployment}
	k.run(t, "create", "-f", "-")
	k.stdin = ""
	wants(t, k.run(t, "label", "deployment", "web", "tier=front"), "deployment.apps/web labeled")
	wants(t, k.run(t, "annotate", "deployment", "web", "note=hello"), "deployment.apps/web annotated")
	wants(t, k.run(t, "scale", "deployment", "web", "--replicas=5"), "deployment.apps/web scaled")
	wants(t, k.run(t, "get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.metadata.labels.tier} {.metadata.annotations.note}"), "5 front hello")
	wants(t, k.run(t, "patch", "deployment", "web", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"example.com/side"}]}}}}`), "patched")
	wants(t, k.run(t, "patch", "deployment", "web", "--type=json", "-p", `[{"op":"remove","path":"/metadata/labels/tier"}]`), "patched")
	wants(t, k.run(t, "patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"paused":true}}`), "patched")
	wants(t, k.run(t, "patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"readyReplicas":1,"replicas":1}}`), "patched")
	wants(t, k.run(t, "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].name} {.spec.paused} {.status.readyReplicas} {.metadata.labels}"),
		`side main true 1 {"app":"web"}`)
	wants(t, k.run(t, "set", "image", "deployment/web", "main=example.com/web:3"), "image updated")
	wants(t, k.run(t, "replace", "--force=false", "-f", writeFile(t, "cm.yaml", `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: green}}`)), "configmap/settings replaced")
	wants(t, k.run(t, "label", "cm", "settings", "a=b"), "labeled")
	_, stderr, err := k.try(t, "label", "cm", "settings", "a=c")
	if err == nil {
		t.Error("label overwritten")
	}
	wants(t, stderr, "already has a value")
	k.env = []string{"KUBE_EDITOR=sed -i s/green/yellow/"}
	wants(t, k.run(t, "edit", "cm", "settings"), "configmap/settings edited")
	if got := k.run(t, "get", "cm", "settings", "-o", "jsonpath={.data.color}"); got != "yellow" {
		t.Errorf("color is %q after the edit", got)
	}
	k.env = []string{"KUBE_EDITOR=true"}
	_, stderr, _ = k.try(t, "edit", "cm", "settings")
	wants(t, stderr, "Edit cancelled, no changes made.")
}

// TestKubectlWatch checks that a watch shows the creation, changes and deletion of an object.
func TestKubectlWatch(t *testing.T) {
	namespace := newNamespace(t)
	k := kubectl{namespace: namespace}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := k.command(ctx, "get", "cm", "-w", "--output-watch-events", "--field-selector", "metadata.name=seen")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(stdout)
	see := func(parts ...string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("kubectl get -w has ended: %v", lines.Err())
		}
		if got := strings.Fields(lines.Text()); strings.Join(got[:len(got)-1], " ") != strings.Join(parts, " ") {
			t.Errorf("%q, want %q", got, parts)
		}
	}
	configMaps := shared.client.CoreV1().ConfigMaps(namespace)
	k.run(t, "create", "cm", "unseen")
	k.run(t, "create", "cm", "seen", "--from-literal=a=1")
	see("EVENT", "NAME", "DATA")
	see("ADDED", "seen", "1")
	if _, err := configMaps.Patch(ctx, "seen", types.MergePatchType, []byte(`{"data":{"b":"2"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	see("MODIFIED", "seen", "2")
	k.run(t, "delete", "cm", "seen")
	see("DELETED", "seen", "2")
}

// TestKubectlWait waits for a condition that becomes true, and for a deletion.
func TestKubectlWait(t *testing.T) {
	k := kubectl{namespace: newNamespace(t), stdin: webDeployment}
	k.run(t, "create", "-f", "-")
	k.stdin = ""
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var waited strings.Builder
	condition := k.command(ctx, "wait", "deployment/web", "--for=condition=Available", "--timeout=30s")
	condition.Stdout, condition.Stderr = &waited, &waited
	if err := condition.Start(); err != nil {
		t.Fatal(err)
	}
	k.run(t, "patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[{"type":"Available","status":"True"}]}}`)
	if err := condition.Wait(); err != nil {
		t.Errorf("wait for a condition: %v\n%s", err, &waited)
	}
	wants(t, waited.String(), "deployment.apps/web condition met")
	k.run(t, "delete", "deployment", "web", "--wait=false")
	k.run(t, "wait", "deployment/web", "--for=delete", "--timeout=30s")
}

// TestKubectlPods checks the columns about a pod's state, and follows its deletion with a finalizer.
func TestKubectlPods(t *testing.T) {
	k := kubectl{namespace: newNamespace(t)}
	k.stdin = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","finalizers":["example.com/stay"]},"spec":{"containers":[{"name":"main","image":"example.com/one"}]}}`
	k.run(t, "create", "-f", "-")
	k.stdin = ""
	wants(t, k.run(t, "get", "pods", "-o", "wide"), "NOMINATED NODE", "READINESS GATES", "one    0/1     Pending   0")
	k.run(t, "delete", "pod", "one", "--wait=false")
	wants(t, k.run(t, "get", "pod", "one"), "Terminating")
	k.run(t, "patch", "pod", "one", "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	k.run(t, "wait", "pod/one", "--for=delete", "--timeout=30s")
}

// TestKubectlDiscovery lists and explains the API.
func TestKubectlDiscovery(t *testing.T) {
	k := kubectl{}
	wants(t, k.run(t, "api-versions"), "apps/v1\n", "\nv1\n", "rbac.authorization.k8s.io/v1\n")
	resources := k.run(t, "api-resources", "--no-headers")
	for _, line := range []string{
		"configmaps cm v1 true ConfigMap",
		"namespaces ns v1 false Namespace",
		"deployments deploy apps/v1 true Deployment",
		"horizontalpodautoscalers hpa autoscaling/v2 true HorizontalPodAutoscaler",
		"events ev events.k8s.io/v1 true Event",
	} {
		found := false
		for got := range strings.Lines(resources) {
			found = found || strings.Join(strings.Fields(got), " ") == line
		}
		if !found {
			t.Errorf("want %q in:\n%s", line, resources)
		}
	}
	wants(t, k.run(t, "api-resources", "--categories=all", "-o", "name"), "pods\n", "services\n", "deployments.apps\n", "jobs.batch\n")
	wants(t, k.run(t, "explain", "pod.spec.containers.image"), "FIELD: image <string>", "Container image name")
	wants(t, k.run(t, "explain", "deploy", "--recursive"), "progressDeadlineSeconds\t<integer>")
	wants(t, k.run(t, "version"), "Server Version: v1.37")
	wants(t, k.run(t, "get", "ns"), "default", "kube-node-lease", "kube-public", "kube-system", "Active")
	wants(t, k.run(t, "cluster-info"), "is running at")
}

// TestKubectlRefusals checks kubectl's messages about a user's mistakes.
func TestKubectlRefusals(t *testing.T) {
	k := kubectl{namespace: newNamespace(t)}
	for _, c := range []struct{ name, stdin, want string }{
		{"invalid", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"Not_A_Name"}}`,
			`The ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": a lowercase RFC 1123 subdomain must consist of`},
		{"unknown field", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"dota":{}}`,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dota"`},
		{"unknown kind", `{"apiVersion":"v1","kind":"Nonsense","metadata":{"name":"a"}}`, `no matches for kind "Nonsense" in version "v1"`},
		{"required", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}`, `* spec.selector: Required value`},
		{"namespace", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"missing-` + k.namespace + `"}}`,
			`(NotFound): error when creating "STDIN": namespaces "missing-` + k.namespace + `" not found`},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := k
			if k.stdin = c.stdin; c.name == "namespace" {
				k.namespace = ""
			}
			_, stderr, err := k.try(t, "create", "-f", "-")
			if err == nil {
				t.Error("accepted")
			}
			wants(t, stderr, c.want)
		})
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKubectlCertificate approves one signing request and denies another.
func TestKubectlCertificate(t *testing.T) {
	text, err := os.ReadFile("testdata/types/certificates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest, _, _ := strings.Cut(string(text), "---")
	for _, c := range []struct{ verb, condition, reason, other string }{
		{"approve", "Approved", "KubectlApprove", "deny"}, {"deny", "Denied", "KubectlDeny", "approve"},
	} {
		name := unique(c.verb)
		k := kubectl{stdin: strings.Replace(manifest, "{name: e2e}", "{name: "+name+"}", 1)}
		k.run(t, "create", "-f", "-")
		defer k.run(t, "delete", "csr", name)
		wants(t, k.run(t, "get", "csr", name), "example.com/e2e", "Pending")
		wants(t, k.run(t, "certificate", c.verb, name), "certificatesigningrequest.certificates.k8s.io/"+name)
		wants(t, k.run(t, "get", "csr", name), c.condition)
		wants(t, k.run(t, "get", "csr", name, "-o", "jsonpath={.status.conditions[*].reason}"), c.reason)
		if _, stderr, err := k.try(t, "certificate", c.other, name); err == nil {
			t.Errorf("%s and then %s", c.verb, c.other)
		} else {
			wants(t, stderr, "is already "+c.condition)
		}
	}
}
