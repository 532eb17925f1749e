package aggregate_test

import (
	"strings"
	"testing"
	"time"
)

// The metrics say which APIServices are unavailable, and how often one has become so.
func TestMetrics(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	metric := func(name string) string {
		t.Helper()
		for line := range strings.Lines(f.must("GET", "/metrics", "")) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
				return value
			}
		}
		return ""
	}
	const gauge = `aggregator_unavailable_apiservice{name="v1.apples.example.com"}`
	const counter = `aggregator_unavailable_apiservice_total{name="v1.apples.example.com",reason="ServiceNotFound"}`
	if g, c := metric(gauge), metric(counter); g != "0" || c != "" {
		t.Errorf("while it is available: %q, %q", g, c)
	}
	f.must("DELETE", "/api/v1/namespaces/default/services/ext", "")
	f.condition("ServiceNotFound")
	for until := time.Now().Add(patience); metric(counter) == "" && time.Now().Before(until); { // the counter increases after the write of the status
		time.Sleep(time.Millisecond)
	}
	if g, c := metric(gauge), metric(counter); g != "1" || c != "1" {
		t.Errorf("while it is not: %q, %q", g, c)
	}
	const failed = `apiserver_request_terminations_total{code="503",component="aggregator",group="apples.example.com",resource="apples",scope="cluster",` +
		`subresource="",verb="LIST",version="v1"}`
	before := metric(failed) // of all servers in the process
	f.send("GET", "/apis/apples.example.com/v1/apples", "")
	if now := metric(failed); now == "" || now == before {
		t.Errorf("a request that is not passed on: %q, then %q", before, now)
	}
	f.must("DELETE", apiServices+"/v1.apples.example.com", "")
	if g := metric(gauge); g != "" {
		t.Errorf("after it: %q", g)
	}
}
