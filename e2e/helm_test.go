package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
)

// helm runs helm in a namespace of the shared server.
type helm struct{ namespace, home string }

func newHelm(t *testing.T, namespace string) helm {
	t.Helper()
	if err := harness.Build(t.Context(), "helm"); err != nil {
		t.Fatal(err)
	}
	return helm{namespace: namespace, home: t.TempDir()}
}

// run returns helm's output, and fails the test when helm fails.
func (h helm) run(t *testing.T, args ...string) string {
	t.Helper()
	output, err := h.try(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// fails returns helm's output, and fails the test when helm does not fail.
func (h helm) fails(t *testing.T, args ...string) string {
	t.Helper()
	output, err := h.try(t, args...)
	if err == nil {
		t.Fatalf("helm %s:\n%s", strings.Join(args, " "), output)
	}
	return output
}

func (h helm) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary("helm"), append([]string{"--kubeconfig", shared.kubeconfig, "--namespace", h.namespace}, args...)...)
	cmd.Env = append(cmd.Environ(), "HOME="+h.home)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	return output.String(), err
}

const chart = "testdata/chart"

// TestHelm takes a release through its life: install, upgrade, an upgrade that fails, rollback, uninstall.
func TestHelm(t *testing.T) {
	namespace := newNamespace(t)
	h, k := newHelm(t, namespace), kubectl{namespace: namespace}
	objects := func() string {
		t.Helper()
		return k.run(t, "get", "all,cm,secret,pvc,hpa,pdb,ingress,netpol,sa", "-o", "name")
	}

	h.run(t, "install", "boat", chart, "--dry-run=server")
	if got := objects(); strings.Contains(got, "boat") {
		t.Errorf("a dry run stored\n%s", got)
	}
	wants(t, h.run(t, "install", "boat", chart), "STATUS: deployed", "REVISION: 1")
	wants(t, objects(), "service/boat", "deployment.apps/boat", "configmap/boat-cache", "configmap/boat-pre-install", "secret/sh.helm.release.v1.boat.v1",
		"persistentvolumeclaim/boat", "horizontalpodautoscaler.autoscaling/boat", "poddisruptionbudget.policy/boat", "ingress.networking.k8s.io/boat",
		"networkpolicy.networking.k8s.io/boat", "serviceaccount/boat")
	password := k.run(t, "get", "secret", "boat", "-o", "jsonpath={.data.password}")

	wants(t, h.run(t, "upgrade", "boat", chart, "--set", "color=red,cache.enabled=false"), "REVISION: 2")
	if got := k.run(t, "get", "secret", "boat", "-o", "jsonpath={.data.password}"); got != password {
		t.Error("an upgrade did not find what was there")
	}
	wants(t, k.run(t, "get", "deploy", "boat", "-o", "jsonpath={..image}"), "example.com/red:1")
	if got := objects(); strings.Contains(got, "boat-cache") {
		t.Errorf("what is no longer in the chart is still there:\n%s", got)
	}
	wants(t, h.fails(t, "upgrade", "boat", chart, "--set", "port=99999"), "UPGRADE FAILED",
		`Service "boat" is invalid: spec.ports[0].port: Invalid value: 99999`)
	wants(t, h.run(t, "history", "boat"), "superseded", "deployed", "failed")

	h.run(t, "rollback", "boat", "1")
	wants(t, k.run(t, "get", "cm", "boat", "boat-cache", "boat-pre-rollback", "-o", "jsonpath={.items[*].data}"), `{"color":"blue"}`, `{"revision":"1"}`)
	wants(t, h.run(t, "status", "boat"), "REVISION: 4", "STATUS: deployed")

	h.run(t, "uninstall", "boat")
	if got := objects(); strings.Count(got, "boat") != 4 || !strings.Contains(got, "persistentvolumeclaim/boat") {
		t.Errorf("left are\n%s", got) // the resources to keep, and the hooks
	}
	wants(t, h.fails(t, "status", "boat"), "release: not found")
}

// TestHelmConflicts checks helm's conflicts with another writer.
func TestHelmConflicts(t *testing.T) {
	namespace := newNamespace(t)
	h, k := newHelm(t, namespace), kubectl{namespace: namespace}
	k.run(t, "create", "configmap", "boat")
	wants(t, h.fails(t, "install", "boat", chart), "exists and cannot be imported into the current release")
	k.run(t, "delete", "configmap", "boat")

	h.run(t, "install", "boat", chart)
	other := kubectl{namespace: namespace, stdin: fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"boat"},"data":{"color":%q}}`, "green")}
	other.run(t, "apply", "--server-side", "--force-conflicts", "--field-manager", "painter", "-f", "-")
	wants(t, h.fails(t, "upgrade", "boat", chart, "--set", "color=red"), `Apply failed with 1 conflict: conflict with "painter": .data.color`)
	h.run(t, "upgrade", "boat", chart, "--set", "color=red", "--force-conflicts")
	if got := k.run(t, "get", "configmap", "boat", "-o", "jsonpath={.data.color}"); got != "red" {
		t.Errorf("the color is %s", got)
	}
	wants(t, h.run(t, "upgrade", "boat", chart, "--set", "color=white", "--server-side=false"), "STATUS: deployed")
}
