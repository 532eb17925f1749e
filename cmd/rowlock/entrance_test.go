package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// startup is a 'rowlock serve' that need not become ready.
type startup struct {
	stop   context.CancelFunc
	ready  chan struct{} // closed when it reports that it is ready
	ended  chan int
	stderr heard
}

// heard is the output so far.
type heard struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.written.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.written.String()
}

func beginStart(t *testing.T, args ...string) *startup {
	t.Helper()
	s := &startup{ready: make(chan struct{}), ended: make(chan int, 1)}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	s.stop = stop
	reader, writer := io.Pipe()
	go func() {
		line := make([]byte, 1)
		if n, _ := reader.Read(line); n > 0 {
			close(s.ready)
		}
		_, _ = io.Copy(io.Discard, reader)
	}()
	go func() {
		code := run(ctx, append([]string{"serve"}, args...), writer, &s.stderr)
		writer.Close()
		s.ended <- code
	}()
	return s
}

// asker sends requests to a server as the administrator of a kubeconfig, on one connection at a time.
type asker struct {
	host        string
	client      *http.Client
	connections int
}

func newAsker(t *testing.T, kubeconfig string) *asker {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{host: config.Host}
	if a.client, err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.client.CloseIdleConnections)
	return a
}

// ask returns the answer to a GET, and waits for a server that listens.
func (a *asker) ask(t *testing.T, path string) (response *http.Response, body string) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			a.connections++
		}
	}})
	for deadline := time.Now().Add(time.Minute); ; {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := a.client.Do(r)
		if errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(body)
	}
}

// A server that waits for its database says so to clients that trust it from an earlier run. It ends when it is told to, and becomes
// ready when the database does, also for clients that are connected already.
func TestStartWithoutDatabase(t *testing.T) {
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	keys := filepath.Join(t.TempDir(), "encryption.yaml")
	encryptSecrets(t, keys, "identity: {}")
	args := []string{"--data-dir", t.TempDir(), "--datastore", c.URL(), "--listen", freeAddress(t),
		"--encryption-provider-config", keys, "--encryption-provider-config-automatic-reload"}
	p := start(t, args...)
	a := newAsker(t, p.kubeconfig)
	if code := p.end(); code != 0 {
		t.Fatalf("ended with %d: %s", code, p.stderr.String())
	}
	if err := c.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	away := func() {
		t.Helper()
		for _, check := range []string{"[-]etcd failed: the database cannot be used yet\n", "[+]kms-providers ok\n"} {
			if response, body := a.ask(t, "/readyz?verbose"); response.StatusCode != 500 || !strings.Contains(body, check) {
				t.Errorf("/readyz: %d %s", response.StatusCode, body)
			}
		}
		response, body := a.ask(t, "/livez")
		for _, hook := range []string{"rbac/bootstrap-roles", "start-encryption-provider-config-automatic-reload"} {
			if response.StatusCode != 500 || !strings.Contains(body, "[-]poststarthook/"+hook+" failed: reason withheld\n") {
				t.Errorf("/livez: %d %s", response.StatusCode, body)
			}
		}
		if response, body := a.ask(t, "/api/v1/namespaces/default"); response.StatusCode != 503 || response.Header.Get("Retry-After") == "" || !strings.Contains(body, `"reason":"ServiceUnavailable"`) {
			t.Errorf("a namespace: %s %v %s", response.Status, response.Header, body)
		}
	}

	s := beginStart(t, args...)
	away()
	s.stop()
	if code := <-s.ended; code != 0 || strings.Contains(s.stderr.String(), "Error") {
		t.Errorf("told to stop, it ended with %d: %s", code, s.stderr.String())
	}
	a.client.CloseIdleConnections()

	s = beginStart(t, args...)
	away()
	a.connections = 0
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ready:
	case code := <-s.ended:
		t.Fatalf("ended with %d: %s", code, s.stderr.String())
	}
	if response, body := a.ask(t, "/api/v1/namespaces/default"); response.StatusCode != 200 || a.connections > 0 {
		t.Errorf("ready: %s %s, through %d other connections", response.Status, body, a.connections)
	}
	if response, body := a.ask(t, "/readyz"); body != "ok" {
		t.Errorf("ready: %s %s", response.Status, body)
	}
	s.stop()
	if code := <-s.ended; code != 0 {
		t.Errorf("ended with %d: %s", code, s.stderr.String())
	}
}

// A client that waits for /readyz finds a kubeconfig for this server: the server is not ready until that is written,
// which takes its time here.
func TestKubeconfigBeforeReady(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--data-dir", dir)
	if code := p.end(); code != 0 {
		t.Fatalf("ended with %d: %s", code, p.stderr.String())
	}
	old, err := os.ReadFile(p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.kubeconfig); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(p.kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	s := beginStart(t, "--data-dir", dir, "--listen", address)
	var read *os.File // the write end of the pipe; it can be opened once the server reads the kubeconfig
	for deadline := time.Now().Add(time.Minute); read == nil; time.Sleep(time.Millisecond) {
		if read, err = os.OpenFile(p.kubeconfig, os.O_WRONLY|syscall.O_NONBLOCK, 0); err != nil && (!errors.Is(err, syscall.ENXIO) || time.Now().After(deadline)) {
			t.Fatalf("%v: %s", err, s.stderr.String())
		}
	}
	defer read.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // on loopback
	defer client.CloseIdleConnections()
	a := &asker{host: "https://" + address, client: client}
	for _, path := range []string{"/readyz", "/livez", "/healthz"} {
		if response, body := a.ask(t, path); response.StatusCode != 500 {
			t.Fatalf("%s before there is a kubeconfig: %d %s", path, response.StatusCode, body)
		}
	}
	if _, err := read.Write(old); err != nil {
		t.Error(err)
	}
	if err := read.Close(); err != nil {
		t.Error(err)
	}
	for response, _ := a.ask(t, "/readyz"); response.StatusCode != 200; response, _ = a.ask(t, "/readyz") {
		select {
		case code := <-s.ended:
			t.Fatalf("ended with %d: %s", code, s.stderr.String())
		case <-time.After(time.Millisecond):
		}
	}
	if now := newAsker(t, p.kubeconfig); now.host != a.host {
		t.Errorf("the kubeconfig names %s, not %s", now.host, a.host)
	} else if response, body := now.ask(t, "/api/v1/namespaces/default"); response.StatusCode != 200 {
		t.Errorf("by the kubeconfig: %s %s", response.Status, body)
	}
	s.stop()
	if code := <-s.ended; code != 0 {
		t.Errorf("ended with %d: %s", code, s.stderr.String())
	}
}

// Where several servers share a port, a server that cannot answer yet does not listen.
func TestStartBesideAnother(t *testing.T) {
	s := beginStart(t, "--data-dir", filepath.Join(t.TempDir(), "data"), "--datastore", "postgres://nobody@127.0.0.1:1/none", "--listen", freeAddress(t), "--permit-port-sharing", "--log-level", "info")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.stderr.String(), "the database cannot be used yet") && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	s.stop()
	if code := <-s.ended; code != 0 || strings.Contains(s.stderr.String(), "listening") || !strings.Contains(s.stderr.String(), "stopped before it was ready") {
		t.Errorf("%d: %s", code, s.stderr.String())
	}
}

// A stop before a server was ready does not hide another error.
func TestStoppedForAnotherReason(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	other := errors.New("no space left on device")
	e := &entrance{logger: slog.New(slog.DiscardHandler)}
	if err := e.stopped(ctx, other); !errors.Is(err, other) {
		t.Errorf("before the stop: %v", err)
	}
	stop()
	if err := e.stopped(ctx, other); !errors.Is(err, other) {
		t.Errorf("an error of its own: %v", err)
	}
	if err := e.stopped(ctx, fmt.Errorf("create objects: %w", ctx.Err())); err != nil {
		t.Errorf("the stop: %v", err)
	}
}
