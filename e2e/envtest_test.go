package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/rowlock/rowlock/e2e/harness"
)

// envtestAssets writes the directory for KUBEBUILDER_ASSETS, with kubectl from PATH.
func envtestAssets(t *testing.T) string {
	t.Helper()
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "assets")
	t.Setenv("PATH", filepath.Dir(harness.Binary("kubectl")))
	out, err := exec.CommandContext(t.Context(), harness.Binary("rowlock"), "envtest-assets", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "export KUBEBUILDER_ASSETS=" + dir + "\n"; string(out) != want {
		t.Errorf("said %q, want %q", out, want)
	}
	return dir
}

// environment starts a server as the tests of a controller do, after setting flags of it. On a busy machine, twenty servers need more than envtest's
// default timeout of 20 seconds, and when envtest then begins anew it leaves its earlier directories behind.
func environment(assets string, flags map[string]string) (*envtest.Environment, *kubernetes.Clientset, error) {
	e := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience}
	for name, value := range flags {
		e.ControlPlane.GetAPIServer().Configure().Set(name, value)
	}
	config, err := e.Start()
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	return e, client, err
}

// TestEnvtest starts many servers at once, each with a store of its own, and checks that nothing of them is left afterwards.
func TestEnvtest(t *testing.T) {
	assets, temporary := envtestAssets(t), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			e, client, err := environment(assets, nil)
			if err != nil {
				t.Error(err)
				return
			}
			maps := client.CoreV1().ConfigMaps("default")
			if _, err := maps.Create(t.Context(), configMap(fmt.Sprint("mine-", i), ""), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			if list, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
				t.Errorf("a server has %d objects, %v", len(list.Items), err)
			}
			if err := e.Stop(); err != nil {
				t.Error(err)
			}
			if _, err := client.Discovery().ServerVersion(); err == nil {
				t.Error("a server that was stopped answers")
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestEnvtestFlags checks that the settings of envtest and its users on kube-apiserver's command line take effect.
func TestEnvtestFlags(t *testing.T) {
	assets := envtestAssets(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("secret,carol,3,\"singers,dancers\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, client, err := environment(assets, map[string]string{
		"token-auth-file": tokens, "allow-privileged": "false", "disable-admission-plugins": "ServiceAccount,NamespaceLifecycle",
		"runtime-config": "resource.k8s.io/v1beta1=true,batch/v1=false", "service-cluster-ip-range": "10.77.0.0/24",
		"feature-gates": "kube:CBORServingAndStorage=true,ContextualLogging=false"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	if _, err := client.CoreV1().ConfigMaps("nowhere").Create(ctx, configMap("x", ""), metav1.CreateOptions{}); err != nil {
		t.Errorf("without NamespaceLifecycle: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "x", Image: "x", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}}}}
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a privileged container: %v", err)
	}
	if _, err := client.ResourceV1beta1().DeviceClasses().List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("a beta version that was turned on: %v", err)
	}
	if _, err := client.BatchV1().Jobs("").List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a version that was turned off: %v", err)
	}
	service, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil || service.Spec.ClusterIP != "10.77.0.1" {
		t.Errorf("the Service kubernetes: %v, %v", service, err)
	}
	user, err := e.AddUser(envtest.User{Name: "alice", Groups: []string{"poets"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alice", "poets", "system:authenticated"}, whoAmI(t, user.Config())); diff != "" {
		t.Errorf("a user that envtest added: %s", diff)
	}
	byToken := rest.AnonymousClientConfig(e.Config)
	byToken.BearerToken = "secret"
	if diff := cmp.Diff([]string{"carol", "singers", "dancers", "system:authenticated"}, whoAmI(t, byToken)); diff != "" {
		t.Errorf("a user of --token-auth-file: %s", diff)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := kubectl.Run("get", "namespaces"); err == nil {
		t.Error("RBAC, by which envtest starts the server, lets a user do what nobody gave them")
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "alice"}, Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "poets"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := kubectl.Run("get", "namespaces", "--output", "name")
	if out, _ := io.ReadAll(stdout); err != nil || !strings.Contains(string(out), "namespace/default") {
		t.Errorf("kubectl: %v, %s, %v", err, out, stderr)
	}
}

// whoAmI asks a server for the name and the groups of a client.
func whoAmI(t *testing.T, config *rest.Config) []string {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	me, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{me.Status.UserInfo.Username}, me.Status.UserInfo.Groups...)
}

// TestEnvtestKilled checks that the servers of a killed test, which stops nothing, end all the same.
func TestEnvtestKilled(t *testing.T) {
	assets, temporary := envtestAssets(t), t.TempDir()
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// The shell stands for the test. It prints the first line of the server's log, and its output ends when the last process that holds it has ended.
	const script = `"$0/etcd" --listen-client-urls=http://127.0.0.1:0 & "$0/kube-apiserver" --etcd-servers=http://x -v=1 --bind-address=127.0.0.1 ` +
		`--secure-port="$1" 2>&1 & read -r forever`
	shell := exec.CommandContext(ctx, "/bin/sh", "-c", script, assets, fmt.Sprint(port))
	shell.Env = append(os.Environ(), "TMPDIR="+temporary)
	held, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	shell.Stdout = writer
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	lines := bufio.NewScanner(reader)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=serving") {
		t.Log(lines.Text())
	}
	if err := shell.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = shell.Wait()
	for lines.Scan() {
		t.Log(lines.Text())
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
