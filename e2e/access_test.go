package e2e

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestKubectlAuth checks a user's identity and rights, before and after kubectl granted them rights.
func TestKubectlAuth(t *testing.T) {
	k := kubectl{namespace: newNamespace(t)}
	name := unique("auditor")
	wants(t, k.run(t, "auth", "whoami", "-o", "yaml"), "kind: SelfSubjectReview", "system:masters")
	wants(t, k.run(t, "auth", "whoami", "--as", name, "--as-group", "g"), "Username    "+name, "[g system:authenticated]")
	if out, _, err := k.try(t, "auth", "can-i", "list", "secrets", "--as", name); err == nil || strings.TrimSpace(out) != "no" {
		t.Errorf("before: %s %v", out, err)
	}
	k.stdin = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: auditor, namespace: ` + k.namespace + `}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [list]}
- {apiGroups: [apps], resources: [deployments/scale], resourceNames: [web], verbs: [get, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: auditor, namespace: ` + k.namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: auditor}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + name + `}
`
	wants(t, k.run(t, "auth", "reconcile", "-f", "-"), "role.rbac.authorization.k8s.io/auditor reconciled", "rolebinding.rbac.authorization.k8s.io/auditor reconciled")
	k.stdin = strings.Replace(k.stdin, "verbs: [list]", "verbs: [watch]", 1)
	k.run(t, "auth", "reconcile", "-f", "-")
	k.stdin = ""
	for _, verb := range []string{"list", "watch"} { // existing rules stay
		if out := k.run(t, "auth", "can-i", verb, "secrets", "--as", name); strings.TrimSpace(out) != "yes" {
			t.Errorf("%s: %s", verb, out)
		}
	}
	list := k.run(t, "auth", "can-i", "--list", "--as", name)
	for _, line := range []string{"secrets [] [] [list watch]", "deployments.apps/scale [] [web] [get update]",
		"selfsubjectreviews.authentication.k8s.io [] [] [create]", "[/healthz] [] [get]"} {
		found := false
		for got := range strings.Lines(list) {
			found = found || strings.Join(strings.Fields(got), " ") == line
		}
		if !found {
			t.Errorf("want %q in:\n%s", line, list)
		}
	}
	_, stderr, err := k.try(t, "get", "configmaps", "--as", name)
	if err == nil {
		t.Error("configmaps are listed")
	}
	wants(t, stderr, `Error from server (Forbidden): configmaps is forbidden: User "`+name+`" cannot list resource "configmaps" in API group "" in the namespace "`+k.namespace+`"`)
}

// TestKubectlCreateToken creates a token for a ServiceAccount, which has the rights of a binding.
func TestKubectlCreateToken(t *testing.T) {
	k := kubectl{namespace: newNamespace(t)}
	k.run(t, "create", "serviceaccount", "robot")
	token := strings.TrimSpace(k.run(t, "create", "token", "robot", "--duration", "1h"))
	if strings.Count(token, ".") != 2 {
		t.Fatalf("the token is %q", token)
	}
	k.run(t, "create", "rolebinding", "robot", "--clusterrole", "view", "--serviceaccount", k.namespace+":robot")
	// The certificate in the kubeconfig would take precedence over the token.
	config := rest.CopyConfig(shared.config)
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	as := []string{"--kubeconfig", os.DevNull, "--server", config.Host, "--certificate-authority", writeFile(t, "ca.crt", string(config.CAData)), "--token", token}
	wants(t, k.run(t, append(as, "auth", "whoami")...), "system:serviceaccount:"+k.namespace+":robot", "system:serviceaccounts:"+k.namespace)
	k.run(t, append(as, "get", "configmaps")...)
	if _, stderr, err := k.try(t, append(as, "get", "secrets")...); err == nil || !strings.Contains(stderr, "Forbidden") {
		t.Errorf("secrets: %v %s", err, stderr)
	}
}
