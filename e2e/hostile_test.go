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

	code int // of the answer
}

// mostMemory is how many MiB the server may have at any time. It is the same for all requests, since how much of an earlier one's garbage
// is still there is the garbage collector's choice.
const mostMemory = 768

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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
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

// send sends the request, holds the answer and the memory it took against what is allowed, and asks for something else afterwards.
func (c hostile) send(ctx context.Context, t *testing.T, client *http.Client, server *harness.Server) {
	pid := server.PIDs()[len(server.PIDs())-1]
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err) // Linux alone says how much a process had at most
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

// answer sends the request, and returns the code of its answer, 0 when there is none, and how its text begins.
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
