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

// hostile is a request that is small to send and meant to cost the server much.
type hostile struct {
	name    string
	request string // method and path
	headers map[string]string
	body    func() io.Reader // nil: none
	length  int64            // of the body; 0: it is sent in chunks

	code int // of the answer
}

// mostMemory is the limit of the server's memory in MiB at any time. It is the same for all requests, since the garbage collector decides how much of
// an earlier request's garbage remains.
const mostMemory = 768

// TestHostileRequests sends expensive requests, one at a time. Each gets kube-apiserver's answer, costs a bounded amount of memory, and leaves a
// server that answers others. Where a patch gets a 413, and where there are more than a thousand errors, kube-apiserver works for minutes, and the
// client gets a timeout after 34 s, which no user can want.
func TestHostileRequests(t *testing.T) {
	if database.url != "" {
		return // refused requests reach no database
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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	for _, c := range slices.Concat(hostileObjects(), hostileBodies(), hostileQueries(), hostilePatches(), hostileExpressions()) {
		t.Run(c.name, func(t *testing.T) { c.send(ctx, t, client, server) })
	}
}

// startHostile starts the server for the requests: kube-apiserver, when E2E_PEER selects it, for comparison.
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

// send sends the request, checks the answer and the memory that it took, and sends another request afterwards.
func (c hostile) send(ctx context.Context, t *testing.T, client *http.Client, server *harness.Server) {
	pid := server.PIDs()[len(server.PIDs())-1]
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err) // only Linux reports the peak memory of a process
	}
	began := time.Now()
	code, text := c.answer(ctx, t, client, server)
	took := resident(t, pid, "VmHWM:") >> 20
	t.Logf("%d in %v, %d MiB: %.100q", code, time.Since(began).Round(time.Millisecond), took, text)
	if code != c.code {
		t.Errorf("%d, want %d: %.1000s", code, c.code, text)
	}
	if took > mostMemory {
		t.Errorf("the server has %d MiB, %d are allowed", took, mostMemory)
	}
	after := sends("afterwards", "GET /api/v1/namespaces/default", http.StatusOK)
	if code, text = after.answer(ctx, t, client, server); code != after.code {
		t.Errorf("afterwards: %d: %s", code, text)
	}
}

// answer sends the request, and returns the code of its answer, 0 without one, and the beginning of its text.
func (c hostile) answer(ctx context.Context, t *testing.T, client *http.Client, server *harness.Server) (code int, text string) {
	t.Helper()
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
	answer, err := client.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	head, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
	n, _ := io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, fmt.Sprintf("%s (%d bytes)", head, n+int64(len(head)))
}

// resident is the present (VmRSS:) or peak (VmHWM:) memory of a process, in bytes.
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
