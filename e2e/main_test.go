package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// patience is how long a test waits for an event that should happen at once.
const patience = 2 * time.Minute

// shared is the server of all tests that need no server of their own.
var shared struct {
	kubeconfig string
	config     *rest.Config
	client     kubernetes.Interface
	cache      string // of kubectl
}

// database is the database of the servers of this run, unless a test chooses another one.
var database struct {
	url string // of Postgres; empty: the default, a SQLite file for each server
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run runs all tests on each database, or only on those of E2E_DATABASE (sqlite, postgres).
func run(m *testing.M) (code int) {
	if err := harness.Build(context.Background(), "kubectl"); err != nil {
		return fail(err)
	}
	defer func() {
		if err := stopPostgres(); err != nil {
			code = fail(err)
		}
	}()
	if os.Getenv("E2E_KUBECONFIG") != "" {
		return runShared(m)
	}
	only := os.Getenv("E2E_DATABASE")
	if only != "" && only != "sqlite" && only != "postgres" {
		return fail(fmt.Errorf("E2E_DATABASE is %q, and neither sqlite nor postgres", only))
	}
	if only != "postgres" {
		fmt.Println("=== on SQLite")
		code = runShared(m)
	}
	if only == "sqlite" || code != 0 {
		return code
	}
	fmt.Println("=== on Postgres")
	var err error
	if database.url, err = postgresURL(); err != nil {
		return fail(err)
	}
	return runShared(m)
}

// postgres is the cluster of all tests, each with schemas of its own. It is started by the first test that needs it; some tests with SQLite do, too.
var postgres = sync.OnceValues(func() (_ *pgtest.Cluster, err error) {
	startedPostgres, err = pgtest.New()
	return startedPostgres, err
})

// startedPostgres is nil until a test has needed the cluster.
var startedPostgres *pgtest.Cluster

// stopPostgres stops it, and removes its files.
func stopPostgres() error {
	if startedPostgres == nil {
		return nil
	}
	return startedPostgres.Stop()
}

func postgresURL() (string, error) {
	cluster, err := postgres()
	if err != nil {
		return "", err
	}
	return cluster.URL(), nil
}

// onDatabase fills in the database of this run where a test does not choose one. A server that is started again in the same directory gets the same
// database.
func onDatabase(options harness.RowlockOptions) harness.RowlockOptions {
	if options.Datastore == "" && database.url != "" {
		options.Datastore, options.Schema = database.url, fmt.Sprintf("%x", sha256.Sum256([]byte(options.DataDir)))[:32]
	}
	return options
}

// runShared runs all tests beside a server that is shared by the tests which need none of their own.
func runShared(m *testing.M) (code int) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "rowlock-e2e-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	shared.cache = filepath.Join(dir, "kubectl-cache")
	shared.kubeconfig = os.Getenv("E2E_KUBECONFIG")
	if shared.kubeconfig == "" {
		if err := buildRowlock(); err != nil {
			return fail(err)
		}
		server, err := harness.StartRowlock(ctx, onDatabase(harness.RowlockOptions{DataDir: filepath.Join(dir, "data")}))
		if err != nil {
			return fail(err)
		}
		defer func() {
			if err := server.Stop(); err != nil {
				code = fail(err)
			}
			if server.Raced() {
				code = fail(errors.New(server.Output()))
			}
		}()
		shared.kubeconfig = server.Kubeconfig
	}
	if shared.config, err = clientcmd.BuildConfigFromFlags("", shared.kubeconfig); err != nil {
		return fail(err)
	}
	shared.config.QPS = -1
	shared.config.WarningHandler = rest.NoWarnings{}
	if shared.client, err = kubernetes.NewForConfig(shared.config); err != nil {
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// buildRowlock builds the binary once, and not at all when no test needs a server of its own.
var buildRowlock = sync.OnceValue(func() error { return harness.Build(context.Background(), "rowlock") })

// startServer starts a server for one test and stops it at the test's end, unless the test has stopped it already.
func startServer(t *testing.T, options harness.RowlockOptions) *harness.Server {
	t.Helper()
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	if options.DataDir == "" {
		options.DataDir = t.TempDir()
	}
	server, err := harness.StartRowlock(t.Context(), onDatabase(options))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Kill()
		if server.Raced() {
			t.Error("the race detector has found something in the server")
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", server.Output())
		}
	})
	return server
}

// clientFor returns a typed client of a server.
func clientFor(t *testing.T, server *harness.Server) *kubernetes.Clientset {
	t.Helper()
	return newClient(t, configOf(t, server))
}

// aloneClientFor returns a client that shares its connections with no other. Clients of one configuration share one connection. If that breaks while
// one of them writes, Go's HTTP/2 reports the error of that write to all of them. client-go resumes a watch that reads EOF, and lists again after any
// other error.
func aloneClientFor(t *testing.T, server *harness.Server) *kubernetes.Clientset {
	t.Helper()
	config := configOf(t, server)
	config.Dial = (&net.Dialer{}).DialContext // a configuration with a dial function of its own shares nothing
	return newClient(t, config)
}

func configOf(t *testing.T, server *harness.Server) *rest.Config {
	t.Helper()
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func newClient(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// names makes names that were not used by any other test of this run, or by an earlier run against the same server.
var names = struct {
	run     int64
	counter atomic.Int64
}{run: time.Now().Unix()}

// unique returns a name that is a DNS label.
func unique(prefix string) string {
	return fmt.Sprintf("%s-%x-%d", prefix, names.run, names.counter.Add(1))
}

// newNamespace creates a namespace for one test in the shared server.
func newNamespace(t *testing.T) string {
	t.Helper()
	return newNamespaceOf(t, shared.client)
}

// newNamespaceOf creates a namespace for one test.
func newNamespaceOf(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("e2e")}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeNamespace(t, client, namespace) })
	return namespace.Name
}

// removeNamespace deletes a namespace and does the last step of the deletion itself, which is a controller's, because the reference runs none.
func removeNamespace(t *testing.T, client kubernetes.Interface, namespace *corev1.Namespace) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete namespace: %v", err)
	}
	namespace.ResourceVersion, namespace.Spec.Finalizers = "", nil
	_, _ = client.CoreV1().Namespaces().Finalize(ctx, namespace, metav1.UpdateOptions{})
}

// kubectl runs kubectl in a namespace of the shared server.
type kubectl struct {
	namespace string
	stdin     string
	env       []string
}

// run returns kubectl's stdout, and fails the test when kubectl fails.
func (k kubectl) run(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := k.try(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// try returns kubectl's stdout and stderr.
func (k kubectl) try(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := k.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// command returns the command without running it.
func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	global := []string{"--kubeconfig", shared.kubeconfig, "--cache-dir", shared.cache}
	if k.namespace != "" {
		global = append(global, "--namespace", k.namespace)
	}
	cmd := exec.CommandContext(ctx, harness.Binary("kubectl"), append(global, args...)...)
	cmd.Env = append(os.Environ(), k.env...)
	if k.stdin != "" {
		cmd.Stdin = strings.NewReader(k.stdin)
	}
	return cmd
}

// wants fails the test unless text contains all the parts.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in:\n%s", part, text)
		}
	}
}
