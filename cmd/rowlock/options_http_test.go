package main

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/resources/upstream"
)

// Two servers can share a port if both allow it.
func TestPortSharing(t *testing.T) {
	shares := httpOptions{sharesPort: true, sharesAddress: true}
	first, err := shares.bind(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := shares.bind(t.Context(), first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if third, err := new(httpOptions).bind(t.Context(), first.Addr().String()); err == nil {
		third.Close()
		t.Error("somebody who does not share it has the port, too")
	}
}

// The verbosity of kube-apiserver's log maps to a level, which can be changed while the server runs.
func TestSetVerbosity(t *testing.T) {
	t.Cleanup(func() {
		if err := upstream.SetVerbosity("0"); err != nil {
			t.Error(err)
		}
	})
	var o logOptions
	for v, want := range map[string]slog.Level{"0": slog.LevelWarn, "2": slog.LevelInfo, "4": slog.LevelDebug, "9": slog.LevelDebug} {
		answer, err := o.setVerbosity(v)
		if err != nil || answer != "successfully set klog.logging.verbosity to "+v || o.now.Level() != want {
			t.Errorf("%s: %q, %v, level %v", v, answer, err, o.now.Level())
		}
	}
	if _, err := o.setVerbosity("loud"); err == nil {
		t.Error("a word is taken for a number")
	}
}

// HTTP/2 clients are offered only HTTP/1.1, for which ciphers that HTTP/2 forbids are allowed.
func TestDisableHTTP2(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--disable-http2-serving", "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA")
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", address.Host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}) //nolint:gosec // on loopback
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("negotiated %q", got)
	}
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // on loopback
	answer, err := client.Get(config.Host + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 1 {
		t.Errorf("%s by %s", answer.Status, answer.Proto)
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d: %s", code, p.stderr.String())
	}
}

// As in kube-apiserver, a negative number of streams has no effect.
func TestNegativeStreams(t *testing.T) {
	for asked, want := range map[int]int{-1: 0, 0: 0, 7: 7} {
		o := httpOptions{maxStreams: asked}
		if errs := o.check(); len(errs) > 0 {
			t.Errorf("%d: %v", asked, errs)
		}
		if got := o.server(&logOptions{}).MaxStreams; got != want {
			t.Errorf("%d: %d streams, want %d", asked, got, want)
		}
	}
}

// Insecure cipher suites are named in the log.
func TestInsecureCiphers(t *testing.T) {
	var log bytes.Buffer
	o := httpOptions{ciphers: []string{"TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_3DES_EDE_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}}
	o.warnCiphers(slog.New(slog.NewTextHandler(&log, nil)))
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN msg=\"Use of insecure cipher 'TLS_RSA_WITH_3DES_EDE_CBC_SHA' detected.\"") {
		t.Errorf("the log is %s", text)
	}
}

// As in kube-apiserver, blocking is recorded only where a profile can show it.
func TestContentionProfiling(t *testing.T) {
	defer runtime.SetBlockProfileRate(0)
	for _, c := range []struct {
		options httpOptions
		records bool
	}{
		{httpOptions{contention: true}, false},
		{httpOptions{profiling: true}, false},
		{httpOptions{contention: true, debugSocket: "s"}, true},
		{httpOptions{contention: true, profiling: true}, true},
	} {
		runtime.SetBlockProfileRate(0)
		c.options.server(&logOptions{})
		before := blockings()
		for range 100 {
			waits := make(chan struct{})
			go close(waits)
			<-waits
		}
		if records := blockings() > before; records != c.records {
			t.Errorf("%+v: blocking is recorded: %v", c.options, records)
		}
	}
}

// blockings is how often a goroutine is recorded to have blocked.
func blockings() (n int64) {
	records := make([]runtime.BlockProfileRecord, 1000)
	all, _ := runtime.BlockProfile(records)
	for _, r := range records[:min(all, len(records))] {
		n += r.Count
	}
	return n
}
