package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authn"
)

// Clients that send or read too slowly are cut off, and their seats are released: clients that never finish their headers or body, or never read a
// list, or the state or events of a watch.
func TestSlowClients(t *testing.T) {
	const limit = time.Second
	s := newLargeServer(t, func(c *server.Config) {
		c.RequestTimeout, c.WatchStall = limit, limit
		c.SetVerbosity = func(string) (string, error) { return "", nil }
		c.IssuedTokens = authn.NewIssuedTokens(resources.NewRows(c.Store.(resources.Store)), nil)
	})
	address, stop, done := serve(t, s)
	for name, head := range map[string]string{
		"a body that does not end":                 "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\nContent-Length: 100\r\n\r\n{",
		"a verbosity that does not end":            "PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\nContent-Length: 100\r\n\r\n1",
		"a token that is not asked for to the end": "POST /rowlock/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\nContent-Length: 100\r\n\r\n{",
		"an answer that is not read":               "GET /api/v1/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\n\r\n",
		"a state that is not read":                 "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\n\r\n",
		"events that are not read":                 "GET /api/v1/configmaps?watch=1&resourceVersion=1 HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\n\r\n",
		"messages that are not read": "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\nOrigin: http://x\r\n" +
			"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			before, _ := known(t, s)
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			untilKnown(t, s, "it is not answered", func(dispatched, _ int) bool { return dispatched > before })
			untilKnown(t, s, "it has its seat for ever", func(_, executing int) bool { return executing == 0 })
			untilKnown(t, s, "it watches for ever", func(int, int) bool { return s.Watches() == 0 })
		})
	}
	wantLine(t, get(s.Handler(), "/metrics", "known").Body.String(), `apiserver_terminated_watchers_total{group="",resource="configmaps"} 3`)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A client that reads a watch more slowly than a response may be read is not cut off: it gets everything, while lists requested later are cut off.
func TestSlowWatch(t *testing.T) {
	s := newLargeServer(t, func(c *server.Config) { c.RequestTimeout = time.Second })
	address, stop, done := serve(t, s)
	ask := func(query string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := known(t, s)
		if _, err := io.WriteString(conn, "GET /api/v1/configmaps"+query+" HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		untilKnown(t, s, "it is not answered", func(dispatched, _ int) bool { return dispatched > before })
		return conn
	}
	watching := ask("?watch=1")
	defer watching.Close()
	for range 2 {
		other := ask("")
		untilKnown(t, s, "it has its seat for ever", func(_, executing int) bool { return executing <= 1 })
		other.Close()
	}
	answer, err := http.ReadResponse(bufio.NewReader(watching), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	events := json.NewDecoder(answer.Body)
	for n := range largeObjects {
		var event struct{ Type string }
		if err := events.Decode(&event); err != nil || event.Type != "ADDED" {
			t.Fatalf("event %d: %q, %v", n, event.Type, err)
		}
	}
	watching.Close()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// largeObjects is the number of objects in newLargeServer: 12 MB, more than the buffers of a connection hold.
const largeObjects = 24

// newLargeServer returns a server with more data than a connection's buffers, and with few seats.
func newLargeServer(t *testing.T, change func(*server.Config)) *server.Server {
	t.Helper()
	var store server.Config
	patient := newServer(t, func(c *server.Config) { store = *c })
	create := func(i int) {
		body := fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"a":%q}}`, i, strings.Repeat("x", 500_000))
		r := httptest.NewRequest("POST", "/api/v1/namespaces/default/configmaps", strings.NewReader(body))
		r.Header.Set("Authorization", "master")
		w := httptest.NewRecorder()
		if patient.Handler().ServeHTTP(w, r); w.Code != 201 {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	for i := range largeObjects {
		create(i)
	}
	return newServer(t, func(c *server.Config) {
		c.Registry, c.Store, c.Pipeline = store.Registry, store.Store, store.Pipeline
		c.MaxInFlight, c.MaxMutatingInFlight = 20, -1
		change(c)
	})
}

// untilKnown waits until the requests of "known" satisfy ok.
func untilKnown(t *testing.T, s *server.Server, what string, ok func(dispatched, executing int) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(known(t, s)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// known returns how many requests of "known" were dispatched and are executing. It retries, because on a slow machine the server may not answer
// within its short limit.
func known(t *testing.T, s *server.Server) (dispatched, executing int) {
	t.Helper()
	w := get(s.Handler(), levelsPath, "master")
	for deadline := time.Now().Add(patience); w.Code != 200; w = get(s.Handler(), levelsPath, "master") {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d: %s", levelsPath, w.Code, w.Body)
		}
	}
	for line := range strings.Lines(w.Body.String()) {
		if cells := strings.Fields(strings.ReplaceAll(line, ",", " ")); len(cells) > 6 && cells[0] == "global-default" {
			if _, err := fmt.Sscan(cells[6]+" "+cells[5], &dispatched, &executing); err != nil {
				t.Fatal(err)
			}
			return dispatched, executing
		}
	}
	t.Fatalf("there is no level global-default: %s", w.Body)
	return 0, 0
}

// levelsPath is the path with the number of requests by priority level.
const levelsPath = "/debug/api_priority_and_fairness/dump_priority_levels"

// An HTTP/1.1 client that sends everything before it reads, as most do, still reads why its body was rejected.
func TestBodyThatIsTooLong(t *testing.T) {
	address, stop, done := serve(t, newServer(t, nil))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetWriteBuffer(4096); err != nil { // the rest stays in this buffer
		t.Fatal(err)
	}
	const size = 3<<20 + 100<<10 // net/http reads 256 KiB more than its handler has read
	if _, err := fmt.Fprintf(conn, "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\nContent-Length: %d\r\n\r\n", size); err != nil {
		t.Fatal(err)
	}
	for rest := size; rest > 0; rest -= 16 << 10 {
		if _, err := conn.Write(make([]byte, min(rest, 16<<10))); err != nil {
			t.Fatalf("%d bytes before the end: %v", rest, err)
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("the answer is %s", answer.Status)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
