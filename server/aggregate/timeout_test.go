package aggregate_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestProxiedTimeout expects the answer of kube-apiserver to a forwarded request that gets no answer in time: the server's own 504, which is counted as
// such. A server that breaks the connection is reported as before.
func TestProxiedTimeout(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	before := func(r *http.Request) {
		switch {
		case !strings.HasPrefix(r.Header.Get("X-Remote-User"), "known"): // a probe
		case strings.HasSuffix(r.URL.Path, "/broken"):
			panic(http.ErrAbortHandler)
		default:
			<-r.Context().Done()
		}
	}
	f.ext.before.Store(&before)
	const want = `{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout",` +
		`"reason":"Timeout","details":{},"code":504}` + "\n"
	for _, timed := range [][2]string{{"GET", apples + "/apples?timeout=100ms"}, {"POST", apples + "/apples?timeout=100ms"}, {"GET", apples + "?timeout=100ms"}} {
		if code, answer := f.send(timed[0], timed[1], ""); code != http.StatusGatewayTimeout || answer != want {
			t.Errorf("%v: %d %s", timed, code, answer)
		}
	}
	if code, answer := f.send("POST", apples+"/apples/broken?timeout=1m", ""); code != http.StatusServiceUnavailable {
		t.Errorf("a broken connection: %d %s", code, answer)
	}
	const terminated = `apiserver_request_terminations_total{code="504",component="apiserver",`
	if !strings.Contains(f.must("GET", "/metrics", ""), terminated) {
		t.Error("the end is not counted")
	}
}
