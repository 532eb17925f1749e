package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// process is a running 'rowlock serve'.
type process struct {
	kubeconfig string
	stop       context.CancelFunc
	ended      chan int
	stderr     bytes.Buffer
}

// start runs 'rowlock serve' on a free port until it reports that it is ready.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{}
	p.startLogging(t, &p.stderr, args...)
	return p
}

// startLogging is start with a log of one's own.
func (p *process) startLogging(t *testing.T, stderr io.Writer, args ...string) {
	t.Helper()
	p.ended = make(chan int, 1)
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	t.Cleanup(p.stop)
	reader, writer := io.Pipe()
	go func() {
		code := run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), writer, stderr)
		p.ended <- code
		writer.Close()
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatalf("ended with %d before it was ready: %s", <-p.ended, p.stderr.String())
	}
	var ok bool
	if p.kubeconfig, ok = strings.CutPrefix(strings.TrimSpace(line), "export KUBECONFIG="); !ok {
		t.Fatalf("said %q", line)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
}

// end stops the process by a signal, and returns its exit code.
func (p *process) end() int {
	p.stop()
	return <-p.ended
}

func (p *process) client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data dir")
	p := start(t, "--data-dir", dir)
	if want := "'" + dir + "/admin.kubeconfig'"; p.kubeconfig != want {
		t.Fatalf("ready with %s, want %s", p.kubeconfig, want)
	}
	p.kubeconfig = strings.Trim(p.kubeconfig, "'")
	if body, err := p.client(t).RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil || string(body) != "ok" {
		t.Errorf("/readyz: %q, %v", body, err)
	}
	if _, err := p.client(t).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}

	var refused bytes.Buffer
	if code := run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir}, io.Discard, &refused); code != exitFailure {
		t.Errorf("a second server on the same file ended with %d", code)
	}
	if code := p.end(); code != 0 || p.stderr.Len() > 0 {
		t.Errorf("ended with %d, logged %q", code, p.stderr.String())
	}

	// Its objects are there when it starts again.
	p = start(t, "--data-dir", dir)
	p.kubeconfig = strings.Trim(p.kubeconfig, "'")
	if _, err := p.client(t).Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

func TestServeFailures(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"address in use", []string{"--data-dir", dir, "--listen", taken.Addr().String()}, "address already in use"},
		{"data directory is a file", []string{"--data-dir", file}, "not a directory"},
		{"no file of the database", []string{"--data-dir", dir, "--datastore-file", file + "x"}, file + "x"},
		{"no token file", []string{"--data-dir", dir, "--token-auth-file", file + "x"}, "token file"},
		{"no client CA file", []string{"--data-dir", dir, "--client-ca-file", file + "x"}, file + "x"},
		{"no authority of kubelets", []string{"--data-dir", dir, "--kubelet-certificate-authority", file + "x"}, file + "x"},
		{"no certificate file", []string{"--data-dir", dir, "--tls-cert-file", file + "x", "--tls-private-key-file", file}, file + "x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := command(t, slices.Concat([]string{"serve", "--listen", "127.0.0.1:0"}, tc.args)...)
			if code != exitFailure || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, tc.want)
			}
		})
	}
}

// A server that cannot start because an object in its database does not decode reports that the database is damaged, and what to do.
func TestServeDamaged(t *testing.T) {
	dir := t.TempDir()
	if code := start(t, "--data-dir", dir).end(); code != 0 {
		t.Fatalf("ended with %d", code)
	}
	file := filepath.Join(dir, "rowlock.db")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zeroed := bytes.ReplaceAll(whole, []byte(`"kind":"ClusterRole",`), []byte("\"kind\":\"\x00\x00\x00\x00\x00\x00\x00Role\","))
	if bytes.Equal(zeroed, whole) {
		t.Fatal("there is no ClusterRole in the file")
	}
	if err := os.WriteFile(file, zeroed, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := command(t, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0")
	if code != exitFailure || !strings.Contains(stderr, ": decode clusterrole") ||
		!strings.HasSuffix(stderr, "the database is damaged; rowlock verify tells what of it is\n") {
		t.Errorf("ended with %d: %s", code, stderr)
	}
	if code, stdout, _ := command(t, "verify", "--data-dir", dir); code != exitFailure || !strings.Contains(stdout, "clusterrole") {
		t.Errorf("rowlock verify ended with %d: %s", code, stdout)
	}
}

func TestLocalURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:6443": "https://127.0.0.1:6443",
		"0.0.0.0:6443":   "https://127.0.0.1:6443",
		"[::]:6443":      "https://[::1]:6443",
		"192.0.2.7:443":  "https://192.0.2.7:443",
	} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := "https://" + *localAddressOf(a, func(string) bool { return true }); got != want {
			t.Errorf("the local URL of %s is %s, want %s", address, got, want)
		}
		// A listener on [::] accepts IPv4 when IPv6 is disabled, too.
		if got := *localAddressOf(a, func(host string) bool { return host != "::1" }); address == "[::]:6443" && got != "127.0.0.1:6443" {
			t.Errorf("without IPv6, %s is reached at %s", address, got)
		}
	}
}

// For --listen 0.0.0.0 the kubeconfig has an IPv4 address: a container may have published only that.
func TestListenNetwork(t *testing.T) {
	for address, want := range map[string]string{"0.0.0.0:0": "https://127.0.0.1:", "127.0.0.1:0": "https://127.0.0.1:"} {
		l, err := net.Listen(listenNetwork(address), address)
		if err != nil {
			t.Fatal(err)
		}
		if got := localURL(l.Addr()); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", address, got)
		}
		l.Close()
	}
	if got := listenNetwork("[::]:6443") + listenNetwork("localhost:6443") + listenNetwork(":6443"); got != "tcptcptcp" {
		t.Error(got)
	}
}

func TestNames(t *testing.T) {
	for listen, want := range map[string]bool{
		"192.0.2.7:6443": true, "edge.example.com:6443": true, "0.0.0.0:6443": false, "[::]:6443": false, ":6443": false,
	} {
		host, _, _ := net.SplitHostPort(listen)
		o := &serveOptions{listen: listen, tlsSANs: []string{"api.example.com"},
			services: serviceOptions{first: net.IPv4(10, 43, 0, 1)}}
		names := o.names("box")
		if got := slices.Contains(names, host); got != want {
			t.Errorf("--listen %s: names %q", listen, names)
		}
		if !slices.Contains(names, "api.example.com") || !slices.Contains(names, "box") || !slices.Contains(names, "10.43.0.1") {
			t.Errorf("names %q", names)
		}
	}
}

func TestShellQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"/var/lib/rowlock/admin.kubeconfig": "/var/lib/rowlock/admin.kubeconfig",
		"/home/a b/x":                       "'/home/a b/x'",
		"/home/it's/x":                      `'/home/it'\''s/x'`,
		"/home/$x":                          "'/home/$x'",
	} {
		if got := shellQuoted(path); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestUserStateHome(t *testing.T) {
	t.Setenv("HOME", "/home/x")
	for xdg, want := range map[string]string{"": "/home/x/.local/state", "/state": "/state", "relative": "/home/x/.local/state"} {
		if got := userStateHome(xdg); got != want {
			t.Errorf("XDG_STATE_HOME=%q: %s", xdg, got)
		}
	}
}

// A server whose connection to the database breaks during the start does not end: it waits for the database at any step.
func TestStartThroughBreaks(t *testing.T) {
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	proxy, err := pgtest.NewProxy(c)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	dir, breaks := t.TempDir(), 0
	for n := int64(0); ; n += 9 {
		proxy.BreakAfter(n, n%2 == 1)
		p := start(t, "--data-dir", filepath.Join(dir, fmt.Sprint(n)), "--datastore", proxy.URL(), "--schema", fmt.Sprintf("start %d", n))
		broke := proxy.Broke()
		proxy.BreakAfter(1<<62, false)
		if body, err := p.client(t).RESTClient().Get().AbsPath("/api/v1/namespaces/default/services/kubernetes").DoRaw(t.Context()); err != nil {
			t.Errorf("a connection broke at message %d: %s, %v", n, body, err)
		}
		if code := p.end(); code != 0 {
			t.Errorf("ended with %d: %s", code, p.stderr.String())
		}
		if !broke {
			break
		}
		breaks++
	}
	if breaks < 5 {
		t.Errorf("a connection broke at %d messages only", breaks)
	}
}
