package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestFirstStart checks the results for a new user: a line that shows the next step, and credentials that only they can read.
func TestFirstStart(t *testing.T) {
	server := startServer(t, harness.RowlockOptions{})
	wants(t, server.Output(), "export KUBECONFIG="+server.Kubeconfig)
	info, err := os.Stat(server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode of %s is %v", server.Kubeconfig, info.Mode())
	}
	printed, err := exec.CommandContext(t.Context(), harness.Binary("rowlock"), "kubeconfig", "--data-dir", server.DataDir).Output()
	if err != nil {
		t.Fatalf("rowlock kubeconfig: %v", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(printed)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, namespace := range namespaces.Items {
		names = append(names, namespace.Name)
	}
	if got := strings.Join(names, " "); got != "default kube-node-lease kube-public kube-system" {
		t.Errorf("namespaces: %s", got)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

// TestRestart checks that a restart preserves objects, revisions and credentials.
func TestRestart(t *testing.T) {
	options := harness.RowlockOptions{DataDir: t.TempDir()}
	server := startServer(t, options)
	kubeconfig, err := os.ReadFile(server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	before, err := clientFor(t, server).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("kept", "1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server = startServer(t, options)
	if again, err := os.ReadFile(server.Kubeconfig); err != nil {
		t.Error(err)
	} else if sameCredentials(t, again) != sameCredentials(t, kubeconfig) {
		t.Error("the credentials are others after a restart")
	}
	client := clientFor(t, server).CoreV1().ConfigMaps("default")
	after, err := client.Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("after the restart: %v, %v", after, err)
	}
	next, err := client.Create(t.Context(), configMap("next", "1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if revision(t, next.ResourceVersion) <= revision(t, before.ResourceVersion) {
		t.Errorf("revision %s after %s", next.ResourceVersion, before.ResourceVersion)
	}
}

// sameCredentials returns the part of a kubeconfig that a restart must not change; the port may change.
func sameCredentials(t *testing.T, kubeconfig []byte) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return string(config.CAData) + string(config.CertData) + string(config.KeyData)
}

// TestSecondProcess checks that a second process on a SQLite file is refused before it can do harm, and that the first goes on.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	server := startServer(t, harness.RowlockOptions{DataDir: dir, Datastore: "sqlite://" + filepath.Join(dir, "rowlock.db")})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := harness.RowlockCommand(ctx, harness.RowlockOptions{DataDir: server.DataDir}).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() <= 0 {
		t.Fatalf("a second process: %v\n%s", err, out)
	}
	wants(t, string(out), filepath.Join(server.DataDir, "rowlock.db"))
	if _, err := clientFor(t, server).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("one", "1"), metav1.CreateOptions{}); err != nil {
		t.Errorf("the first process: %v", err)
	}
}

// TestDrain stops a server during writes and watches: watches end as if their time were up, every write is answered, and acknowledged writes are
// kept.
func TestDrain(t *testing.T) {
	options := harness.RowlockOptions{DataDir: t.TempDir()}
	server := startServer(t, options)
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	stream := openWatch(t, config, "/api/v1/namespaces/default/configmaps?watch=true")
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stream)
		ended <- err
	}()
	client := clientFor(t, server).CoreV1().ConfigMaps("default")
	const writers, enough = 8, 200
	written := make(chan string)
	for w := range writers {
		go func() {
			defer func() { written <- "" }()
			for i := 0; ; i++ {
				name := fmt.Sprintf("drained-%d-%d", w, i)
				if _, err := client.Create(context.WithoutCancel(t.Context()), configMap(name, "1"), metav1.CreateOptions{}); err != nil {
					return
				}
				written <- name
			}
		}()
	}
	var acknowledged []string
	for running := writers; running > 0; {
		name := <-written
		if name == "" {
			running--
			continue
		}
		if acknowledged = append(acknowledged, name); len(acknowledged) == enough {
			if err := server.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the watch ended with %v, want the end of its stream", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := server.Wait(ctx); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	client = clientFor(t, startServer(t, options)).CoreV1().ConfigMaps("default")
	for _, name := range acknowledged {
		if _, err := client.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("acknowledged before the end, and lost: %v", err)
		}
	}
}

// TestBadFlags checks that invalid flags are refused by name.
func TestBadFlags(t *testing.T) {
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--listne", "127.0.0.1:0"},
		{"--datastore", "mongodb://localhost"},
		{"--tls-cert-file", "only.crt"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := harness.RowlockCommand(ctx, harness.RowlockOptions{DataDir: t.TempDir(), Args: args}).CombinedOutput()
		cancel()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() <= 0 {
			t.Errorf("%v: %v", args, err)
		}
		wants(t, string(out), strings.TrimLeft(args[0], "-"))
	}
}

// TestAllowPrivileged starts a server of each kind, because the flag applies to the whole process.
func TestAllowPrivileged(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "<nil>",
		"--allow-privileged=false": "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
	} {
		client := clientFor(t, startServer(t, harness.RowlockOptions{Args: strings.Fields(args)}))
		privileged := corev1.Container{Name: "driver", Image: "example.com/driver", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "driver"}, Spec: corev1.PodSpec{Containers: []corev1.Container{privileged}}}
		_, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if got := fmt.Sprint(err); !strings.HasSuffix(got, want) {
			t.Errorf("with %q: %s, want %s", args, got, want)
		}
	}
}

// openWatch opens a watch without client-go's decoder, to show how its stream ends.
func openWatch(t *testing.T, config *rest.Config, path string) io.Reader {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("watch: %s", response.Status)
	}
	return response.Body
}

// configMap returns a ConfigMap with one value.
func configMap(name, n string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": n}}
}

// revision parses a resourceVersion as a number.
func revision(t *testing.T, resourceVersion string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
