package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestTemplates(t *testing.T) {
	pods, err := podTemplate()
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(pods.fill("one", 23, 42), &pod); err != nil {
		t.Fatal(err)
	}
	if pod.Name != "one" || pod.Labels[groupLabel] != "3" || pod.Annotations[turnAnnotation] != "0000000000000000042" {
		t.Errorf("filled in: %v %v %v", pod.Name, pod.Labels, pod.Annotations)
	}
	configMaps, err := configMapTemplate()
	if err != nil {
		t.Fatal(err)
	}
	var configMap corev1.ConfigMap
	if err := json.Unmarshal(configMaps.fill("two", 0, 1), &configMap); err != nil || configMap.Name != "two" || len(configMap.Data) != 8 {
		t.Errorf("filled in: %v, %v", configMap, err)
	}
}

// TestMarks checks that a client without a decoder finds the values that it needs.
func TestMarks(t *testing.T) {
	event := []byte(`{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"123","annotations":{"bench/turn":"0000000000000000007"},` +
		`"managedFields":[{"fieldsV1":{"f:metadata":{"f:annotations":{"f:bench/turn":{}}}}}]}}}`)
	if got := revisionOf(event); got != 123 {
		t.Errorf("revision %d", got)
	}
	if got := turnOf(event); got != 7 {
		t.Errorf("turn %d", got)
	}
	if !setTurn(event, 8) || turnOf(event) != 8 || !json.Valid(event) {
		t.Errorf("after a new turn: %s", event)
	}
	if setTurn([]byte(`{}`), 1) || turnOf([]byte(`{}`)) != 0 {
		t.Error("found a turn where there is none")
	}
	if got := continueOf([]byte(`{"metadata":{"resourceVersion":"1","continue":"abc="},"items":[]}`)); got != "abc=" {
		t.Errorf("continue %q", got)
	}
	if got := continueOf([]byte(`{"metadata":{"resourceVersion":"1"},"items":[]}`)); got != "" {
		t.Errorf("continue %q on the last page", got)
	}
}

func TestPercentile(t *testing.T) {
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(i))
	}
	if got := percentile(values, 0.5); got != 50 {
		t.Errorf("p50 %d", got)
	}
	if got := percentile(values, 0.99); got != 99 {
		t.Errorf("p99 %d", got)
	}
	if got := percentile(values[:1], 0.99); got != 0 {
		t.Errorf("p99 of one value %d", got)
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("p50 of nothing %d", got)
	}
}

// TestSummarize checks that failures do not count as delays, but as cost.
func TestSummarize(t *testing.T) {
	workers := []worker{
		{latencies: []time.Duration{3, 1}, bytes: 30},
		{latencies: []time.Duration{2}, bytes: 10, errors: 1, first: errors.New("refused")},
	}
	got := summarize(load{row: "row", clients: make([]*client, 2)}, workers, time.Second, 400)
	want := Result{Row: "row", Clients: 2, Ops: 3, Errors: 1, Seconds: 1, P50: 2, P99: 3, CPU: 100, Bytes: 10, FirstError: "refused"}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestProcesses(t *testing.T) {
	self := processes{os.Getpid()}
	if resident, err := self.resident(); err != nil || resident < 1<<20 {
		t.Errorf("resident %d, %v", resident, err)
	}
	before, err := self.cpu()
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after == before; { // until a tick has passed
		if after, err = self.cpu(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (processes{1 << 30}).cpu(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("CPU of a process that is not there: %v", err)
	}
}

func TestUpdatePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("before\n"+pageBegin+"\nold\n"+pageEnd+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := updatePage(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + pageBegin + "\n\nnew\n\n" + pageEnd + "\nafter\n"; string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := updatePage(path, "new\n"); err == nil {
		t.Error("wrote into a page without a place for it")
	}
}

// TestMarkdown checks that servers are shown side by side, errors included, with a dash for missing measurements.
func TestMarkdown(t *testing.T) {
	text := markdown([]*Server{
		{Name: "one", Results: []Result{
			{Row: rowGet, Protocol: http1, Clients: 16, Ops: 100, Seconds: 1, P50: time.Millisecond, P99: 20 * time.Millisecond, CPU: 50 * time.Microsecond},
			{Row: rowGet, Protocol: http2, Clients: 16, Ops: 200, Seconds: 1, P50: time.Millisecond, P99: 30 * time.Millisecond, CPU: 60 * time.Microsecond},
			{Row: rowListJSON, Protocol: http2, Clients: 1, Ops: 1, Seconds: 1, P50: 15 * time.Millisecond, CPU: 14 * time.Millisecond, Bytes: 25_700_000},
			{Row: rowListJSON + gzipSuffix, Protocol: http2, Clients: 1, Ops: 1, Seconds: 1, P50: 16 * time.Millisecond, CPU: 17 * time.Millisecond, Bytes: 900_000},
		}},
		{Name: "two", Results: []Result{{Row: rowGet, Protocol: http1, Clients: 16, Errors: 2, Seconds: 1, FirstError: "500: sorry"}, {Row: rowGet, Protocol: http1, Clients: 1, Seconds: 1}}},
	})
	for _, part := range []string{
		"|  | one | two |\n",
		"|  | one | one, gzip | two | two, gzip |\n",
		"| list pods, JSON | 15 ms, 14 ms CPU, 25.7 MB | 16 ms, 17 ms CPU, 0.9 MB | – | – |\n",
		"| by CPU, one | HTTP/2 ÷ HTTP/1.1 | gzip ÷ plain, HTTP/2 | two ÷ one, HTTP/2 | goal | the same, HTTP/1.1 |\n",
		"| get pod | 1.20 × |  | – | 15 × | – |\n",
		"| list pods, JSON, gzip | – | 1.21 × | – | 18 × | – |\n",
		"| 1, HTTP/1.1 | – | 0/s",
		"| 16, HTTP/2 | 200/s, p50 1.0 ms, p99 30 ms, 60 µs CPU | – |",
		"| 16, HTTP/1.1 | 100/s, p50 1.0 ms, p99 20 ms, 50 µs CPU | 0/s, p50 –, p99 –, 0.0 µs CPU, **2 errors** |",
		"two, get pod, 16 clients, HTTP/1.1: 2 of 2, the first: `500: sorry`",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in:\n%s", part, text)
		}
	}
}

// TestConnections checks the number of connections of clients: few over HTTP/2, and never more streams on one than servers accept.
func TestConnections(t *testing.T) {
	for _, c := range []struct {
		p       protocol
		n, want int
	}{{http1, 1, 1}, {http1, 256, 256}, {http2, 1, 1}, {http2, 3, 3}, {http2, 16, 4}, {http2, 256, 4}, {http2, 1000, 16}, {http2, 10000, 157}} {
		if got := connections(c.p, c.n); got != c.want {
			t.Errorf("%d clients, %s: %d connections, want %d", c.n, c.p, got, c.want)
		}
	}
	if err := (&options{Protocol: "h3"}).checkProtocols(); err == nil || !strings.Contains(err.Error(), "h3") {
		t.Errorf("%v", err)
	}
}

func TestUnknownServer(t *testing.T) {
	if _, err := compare(context.Background(), []string{"mainframe"}, options{}); err == nil || !strings.Contains(err.Error(), "mainframe") {
		t.Errorf("%v", err)
	}
}
