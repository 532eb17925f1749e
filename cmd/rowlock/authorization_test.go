package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Authorization flags are refused as by kube-apiserver v1.37.1.
func TestAuthorizationRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	content := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: mine}]\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"--authorization-mode=":                                           "at least one authorization-mode must be passed",
		"--authorization-mode=RBAC,Magic":                                 `authorization-mode "Magic" is not a valid mode`,
		"--authorization-mode=RBAC,RBAC":                                  `authorization-mode ["RBAC" "RBAC"] has mode specified more than once`,
		"--authorization-mode=ABAC":                                       "authorization-mode ABAC's authorization policy file not passed",
		"--authorization-mode=Webhook":                                    "authorization-mode Webhook's authorization config file not passed",
		"--authorization-mode=RBAC --authorization-policy-file=x":         "cannot specify --authorization-policy-file without mode ABAC",
		"--authorization-mode=RBAC --authorization-webhook-config-file=x": "cannot specify --authorization-webhook-config-file without mode Webhook",
		"--authorization-config=x --authorization-mode=RBAC":              "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined",
		"--authorization-config=x --authorization-webhook-version=v1":     "--authorization-config can not be specified when",
		"--authorization-config=/nowhere":                                 "open /nowhere: no such file or directory",
		"--authorization-config=" + file:                                  "expected name rbac for authorizer RBAC instead of mine",
	} {
		for _, program := range [][]string{{"kube-apiserver", "--etcd-servers=x"}, {"serve"}} {
			code, _, stderr := command(t, slices.Concat(program, strings.Fields(line))...)
			if code == 0 || !strings.Contains(stderr, want) {
				t.Errorf("%s %s: exit code %d, %q, want %q", program, line, code, stderr, want)
			}
		}
	}
}

// A file configures the authorizers, and their decisions are counted.
func TestAuthorizationConfig(t *testing.T) {
	dir := t.TempDir()
	file, tokens := filepath.Join(dir, "authorization.yaml"), filepath.Join(dir, "tokens")
	for name, content := range map[string]string{
		file:   "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: ABAC, name: abac}, {type: RBAC, name: rbac}]\n",
		tokens: "secret,ann,,\n",
		filepath.Join(dir, "policies"): `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","namespace":"default","resource":"pods","apiGroup":"*"}}` + "\n" +
			`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","nonResourcePath":"/metrics"}}` + "\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "--data-dir", dir, "--token-auth-file", tokens, "--authorization-config", file, "--authorization-policy-file", filepath.Join(dir, "policies"))
	ann := p.as(t, "secret")
	if _, err := ann.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := ann.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "abac: No policy matched.") {
		t.Errorf("what no policy allows: %v", err)
	}
	body, err := ann.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(body), "\n"+`apiserver_authorization_decisions_total{decision="allowed",name="abac",type="ABAC"} `) {
		t.Errorf("metrics: %v", err)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d: %s", code, p.stderr.String())
	}
}
