package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestServerEnds checks that a server that ends under the load is a result: its measurements until then count, and others are still measured.
func TestServerEnds(t *testing.T) {
	ended := make(chan struct{})
	var once sync.Once
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPatch {
			once.Do(func() { close(ended) })
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"gitVersion":"v0","metadata":{"resourceVersion":"1","annotations":{"bench/turn":"0000000000000000001"}}}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := measure(t.Context(), target{Name: "mortal", Kubeconfig: kubeconfig, Ended: ended},
		options{Clients: []int{2}, Pods: 4, Duration: 10 * time.Millisecond, Protocol: "h1", Rows: []string{rowGet, rowPatch}})
	if err != nil {
		t.Fatal(err)
	}
	if want := rowPatch + ", 2 clients, HTTP/1.1"; result.Ended != want || result.find(rowGet, http1, 2) == nil || result.find(rowPatch, http1, 2) != nil {
		t.Errorf("ended during %q, want %q; results %+v", result.Ended, want, result.Results)
	}
	result.LastWords = lastWords("starting\npanic: send on closed channel\n\ngoroutine 1 [running]:\n")
	want := "mortal ended by itself (merge patch pod, 2 clients, HTTP/1.1): `panic: send on closed channel`"
	if got := markdown([]*Server{result}); !strings.Contains(got, want) {
		t.Errorf("want %q in:\n%s", want, got)
	}
	if faultless([]*Server{result}) == nil {
		t.Error("a quick run passes with a server that ended")
	}
}
