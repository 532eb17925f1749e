package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/resources/upstream"
)

// NodeRestriction is enabled in serve unless it is disabled, whatever else is enabled. In rowlock kube-apiserver it is disabled unless it
// is enabled there.
func TestKubeletsAreRestricted(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--enable-admission-plugins=AlwaysPullImages"}, `node "a" can only create mirror pods`},
		{[]string{"--disable-admission-plugins=NodeRestriction"}, ""},
	} {
		p := start(t, append([]string{"--data-dir", t.TempDir()}, c.args...)...)
		config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:a", Groups: []string{"system:nodes"}}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		_, err = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
		if code := p.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	}
	o := &kubeAPIServerOptions{}
	o.sections()
	if on := o.serve.admission.enabled(); len(on) > 0 {
		t.Errorf("on as kube-apiserver: %v", on)
	}
}

// With kube-apiserver's --admission-control, exactly the named plugins run: not NamespaceLifecycle nor ServiceAccount, which would refuse the Pod.
func TestAdmissionControl(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("secret,admin,1,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for names, want := range map[string]string{"AlwaysPullImages": "Always", "": "IfNotPresent"} {
		s := startKubeAPIServer(t, t.TempDir(), "--etcd-servers=http://127.0.0.1:1", "--token-auth-file="+tokens, "--admission-control="+names)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/v1/namespaces/nosuch/pods",
			strings.NewReader(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer secret")
		r.Header.Set("Content-Type", "application/json")
		answer, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if got := gjson.GetBytes(body, "spec.containers.0.imagePullPolicy").Str; err != nil || got != want {
			t.Errorf("%q: %d %s, %v", names, answer.StatusCode, body, err)
		}
		if logged := s.end(t); !strings.Contains(logged, "Flag --admission-control has been deprecated") || strings.Contains(logged, "without effect") {
			t.Errorf("logged %s", logged)
		}
	}
}

// Errors in --admission-control have kube-apiserver's messages.
func TestAdmissionControlRefusals(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const exclusive = "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
	for line, want := range map[string]string{
		"--admission-control=Foo": `admission-control plugin "Foo" is unknown`,
		"--admission-control=Priority --enable-admission-plugins=Priority": exclusive,
		"--admission-control= --disable-admission-plugins=Priority":        exclusive,
	} {
		code, _, stderr := command(t, append([]string{"kube-apiserver", "--etcd-servers=x"}, strings.Fields(line)...)...)
		if code != exitFailure || !strings.Contains(stderr, "Error: "+want+"\n") {
			t.Errorf("%s: exit code %d, stderr %q, want %q", line, code, stderr, want)
		}
	}
}

// Errors in the admission configuration are reported before anything is served.
func TestAdmissionConfigurationRefusals(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
	for content, want := range map[string]string{
		"":                     "failed to read plugin config: ",
		"kind: Nonsense\n":     "failed to read plugin config: ",
		head + "colour: red\n": `failed to read plugin config: strict decoding error: unknown field "colour"`,
		head + "plugins: [{name: PodSecurity, path: none.yaml}]\n":                          "configuration of plugin PodSecurity: open " + filepath.Join(dir, "none.yaml"),
		head + "plugins: [{name: PodSecurity, configuration: {apiVersion: v9, kind: x}}]\n": `couldn't init admission plugin "PodSecurity"`,
	} {
		file := filepath.Join(dir, "admission.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := command(t, "kube-apiserver", "--etcd-servers=x", "--bind-address=127.0.0.1", "--cert-dir="+t.TempDir(), "--admission-control-config-file="+file)
		if code != exitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, stderr %q, want %q", content, code, stderr, want)
		}
	}
	if code, _, stderr := command(t, "serve", "--admission-control-config-file=/none"); code != exitUsage ||
		!strings.Contains(stderr, `--admission-control-config-file: failed to read plugin config: unable to read admission control configuration from "/none"`) {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// With the gate off, a directory of manifests is refused, with kube-apiserver's messages.
func TestManifestsNeedTheirGate(t *testing.T) {
	t.Cleanup(func() {
		if err := upstream.SetFeatureGates(map[string]bool{"ManifestBasedAdmissionControlConfig": true}); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", t.TempDir())
	for plugin, kind := range map[string]string{"ValidatingAdmissionWebhook": "WebhookAdmissionConfiguration", "MutatingAdmissionWebhook": "WebhookAdmissionConfiguration",
		"ValidatingAdmissionPolicy": "ValidatingAdmissionPolicyConfiguration", "MutatingAdmissionPolicy": "MutatingAdmissionPolicyConfiguration"} {
		file := filepath.Join(t.TempDir(), "admission.yaml")
		content := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: " + plugin + "\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: " +
			kind + ", staticManifestsDir: " + t.TempDir() + "}\n"
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := command(t, "serve", "--data-dir", t.TempDir(), "--listen=127.0.0.1:0", "--feature-gates=ManifestBasedAdmissionControlConfig=false", "--admission-control-config-file="+file)
		if want := "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled"; code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, stderr %q, want %q", plugin, code, stderr, want)
		}
	}
}
