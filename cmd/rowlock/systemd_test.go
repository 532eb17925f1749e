package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rowlock/rowlock/server/health"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/server/servertest"
)

// systemd is notified when the server is ready, that it is alive, and when it stops.
func TestSystemdIsTold(t *testing.T) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	states := make(chan string, 1000)
	go func() {
		defer close(states)
		message := make([]byte, 1<<10)
		for {
			n, err := socket.Read(message)
			if err != nil {
				return
			}
			states <- string(message[:n])
		}
	}()
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	t.Setenv("WATCHDOG_USEC", "6000000")
	p := start(t, "--data-dir", t.TempDir())
	want := func(state string) {
		t.Helper()
		for got := range states {
			if strings.TrimSpace(got) == state {
				return
			}
			if got != "WATCHDOG=1" {
				t.Fatalf("told %q, want %q", got, state)
			}
		}
	}
	want("READY=1")
	want("WATCHDOG=1")
	if code := p.end(); code != 0 {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
	want("STOPPING=1")
}

// TestWatchdogAsksItsOwnServer reads a kubeconfig in which a user has chosen another cluster.
func TestWatchdogAsksItsOwnServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.kubeconfig")
	config := clientcmdapi.NewConfig()
	for name, server := range map[string]string{pki.KubeconfigEntry: "https://127.0.0.1:6443", "other": "https://other.example.com"} {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: name}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	config.CurrentContext = "other"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	own, err := ownConfig(path)
	if err != nil || own.Host != "https://127.0.0.1:6443" || own.BearerToken != pki.KubeconfigEntry {
		t.Errorf("the watchdog asks %+v: %v", own, err)
	}
}

// The watchdog's requests succeed while the servers of APIServices have not said yet what they serve, and not while another check fails.
func TestWatchdogWaitsForNoOtherServer(t *testing.T) {
	for failing, alive := range map[string]bool{"poststarthook/apiservice-discovery-controller": true, "poststarthook/apiservice-openapi-controller": false} {
		checks := []health.Check{health.Ping, {Name: failing, Run: func(*http.Request) error { return errors.New("not finished") }}}
		s := httptest.NewTLSServer(health.New("livez", servertest.Quiet, func() []health.Check { return checks }))
		config := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		if err := live(t.Context(), config, time.Minute); (err == nil) != alive {
			t.Errorf("%s fails: %v", failing, err)
		}
		s.Close()
	}
}
