package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// On one HTTP/1.1 connection whose writes may be held back, every response is sent completely, and every event at once: only then does the client
// send the next request.
func TestAnswersEnd(t *testing.T) {
	s := newServer(t, nil)
	address, stop, done := serve(t, s)
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	send := func(c net.Conn, from *bufio.Reader, method, path, body string) *http.Response {
		t.Helper()
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
		response, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	c, from := dial()
	text := func(method, path, body string) string {
		t.Helper()
		response := send(c, from, method, path, body)
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	const all = "/api/v1/namespaces/default/configmaps"
	for i, size := range []int{0, 1 << 10, 3 << 10, 4 << 10, 5 << 10, 16 << 10, 100 << 10, 900 << 10} {
		value := strings.Repeat("x", size)
		text("POST", all, fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"a":%q}}`, i, value))
		if got := text("GET", fmt.Sprintf("%s/c%d", all, i), ""); !strings.Contains(got, `{"a":"`+value+`"}`) {
			t.Errorf("of %d bytes: %d", size, len(got))
		}
	}
	if got := text("GET", all, ""); strings.Count(got, `"data"`) != 8 || !strings.HasSuffix(got, "]}\n") {
		t.Errorf("the list has %d bytes", len(got))
	}
	initial := func(watch *http.Response, n int) *bufio.Reader {
		t.Helper()
		events := bufio.NewReader(watch.Body)
		for i := range n {
			if line, err := events.ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"type":"ADDED"`) {
				t.Fatalf("event %d: %.100s, %v", i, line, err)
			}
		}
		return events
	}
	long, answers := dial()
	events := initial(send(long, answers, "GET", all+"?watch=1&timeoutSeconds=3600", ""), 8)
	text("DELETE", all+"/c7", "")
	if line, err := events.ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"type":"DELETED"`) {
		t.Errorf("%.100s, %v", line, err)
	}
	events = initial(send(c, from, "GET", all+"?watch=1&timeoutSeconds=1", ""), 7)
	if rest, err := io.ReadAll(events); err != nil || len(rest) > 0 {
		t.Errorf("the watch ends with %q, %v", rest, err)
	}
	if got := text("GET", all+"/none", ""); !strings.Contains(got, "NotFound") {
		t.Error(got)
	}
}
