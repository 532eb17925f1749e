package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/e2e/harness"
)

// A hostile request is one that is small to send and meant to cost the server much.
type hostile struct {
	name    string
	request string // method and path
	headers map[string]string
	body    func() io.Reader // nil: none
	length  int64            // of the body; 0: it is sent in chunks

	code int   // of the answer
	most int64 // MiB that the server may take for it beyond what it had; 0: 384
}

// TestHostileRequests sends what is made to cost much, one request at a time. Each is answered as kube-apiserver answers it, costs a
// bounded amount of memory, and leaves a server that answers others. Where the answer is 413 to a patch, and where there are more than a
// thousand errors, kube-apiserver works for minutes, and the client hears of a timeout after 34 s: that cannot be what anybody wants.
func TestHostileRequests(t *testing.T) {
	if database.url != "" {
		return // what is refused reaches no database
	}
	server := startHostile(t)
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for _, c := range slices.Concat(hostileObjects(), hostileBodies(), hostileQueries(), hostilePatches(), hostileExpressions()) {
		t.Run(c.name, func(t *testing.T) { c.send(ctx, t, client, server) })
	}
}

// startHostile starts the server that the requests are for: kube-apiserver, when E2E_PEER asks for it, to see what it does.
func startHostile(t *testing.T) *harness.Server {
	if os.Getenv("E2E_PEER") == "" {
		return startServer(t, harness.RowlockOptions{})
	}
	server, err := harness.StartKubeAPIServer(t.Context(), harness.Etcd, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server
}

func (c hostile) send(ctx context.Context, t *testing.T, client *http.Client, server *harness.Server) {
	pid := server.PIDs()[len(server.PIDs())-1]
	before := resident(t, pid, "VmRSS:")
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err) // Linux alone says how much a process had at most
	}
	method, path, _ := strings.Cut(c.request, " ")
	var body io.Reader
	if c.body != nil {
		body = c.body()
	}
	q, err := http.NewRequestWithContext(ctx, method, server.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	q.ContentLength = c.length
	for name, value := range c.headers {
		q.Header.Set(name, value)
	}
	began := time.Now()
	answer, err := client.Do(q)
	code, text := 0, ""
	if err == nil {
		head, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
		n, _ := io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		code, text = answer.StatusCode, fmt.Sprintf("%s (%d bytes)", head, n+int64(len(head)))
	} else {
		text = err.Error()
	}
	grown := (resident(t, pid, "VmHWM:") - before) >> 20
	if os.Getenv("E2E_PEER") != "" {
		t.Logf("%d in %v, %d MiB: %.300q", code, time.Since(began).Round(time.Millisecond), grown, text) // kube-apiserver's, to be looked at
	}
	if code != c.code {
		t.Errorf("%d, want %d: %.1000s", code, c.code, text)
	}
	if most := max(c.most, 384); grown > most {
		t.Errorf("the server took %d MiB more, %d are allowed", grown, most)
	}
	q, err = http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/namespaces/default", nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err = client.Do(q); err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s", answer.Status)
	}
}

// resident is how much memory a process has (VmRSS:) or had at most (VmHWM:), in bytes.
func resident(t *testing.T, pid int, which string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), which)
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
