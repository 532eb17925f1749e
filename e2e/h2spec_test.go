package e2e

import (
	"encoding/xml"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestHTTP2Conformance runs h2spec, the published suite of RFC 9113's predecessors, in its strict mode against Rowlock's own HTTP/2 server and
// golang.org/x/net/http2's. The failures are known, with their reasons.
func TestHTTP2Conformance(t *testing.T) {
	if database.url != "" {
		return // no request of it reaches the database
	}
	if err := harness.Build(t.Context(), "h2spec"); err != nil {
		t.Fatal(err)
	}
	// kube-apiserver answers these with 400, as RFC 9113, 8.1.1 allows, and h2spec wants a reset.
	refused := []string{
		"http2/8.1.2.2 Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"",
		"http2/8.1.2.2 Sends a HEADERS frame that contains the connection-specific header field",
	}
	known := append([]string{
		// If answers are faster than h2spec's requests, there are never more than a thousand at once (TestTooManyStreams in server/h2), and their streams
		// are over before it increases their windows ("a window beyond all" of TestMalformed).
		"http2/5.1.2 Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded",
		"http2/6.9.1 Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream",
	}, refused...)
	const ours = "--fast-paths=http2" // also if the environment turns it off
	own := h2spec(t, ours)
	isKnown := func(name string) bool { return slices.Contains(known, name) }
	if wrong := slices.DeleteFunc(slices.Clone(own), isKnown); len(wrong) > 0 {
		// h2spec takes a late answer for a missing one. A defect of the server fails again.
		again := h2spec(t, ours)
		for _, failed := range wrong {
			if slices.Contains(again, failed) {
				t.Errorf("our own server fails at: %s", failed)
			}
		}
	}
	for _, failed := range refused {
		if !slices.Contains(own, failed) {
			t.Errorf("our own server no longer fails at: %s", failed)
		}
	}
	if plain := h2spec(t, "--fast-paths=-http2"); len(plain) < len(own) {
		t.Errorf("golang.org/x/net/http2 fails at less: %q", plain)
	}
}

// h2spec returns the failures of a server with the given arguments.
func h2spec(t *testing.T, args ...string) (failed []string) {
	t.Helper()
	server := startServer(t, harness.RowlockOptions{Args: args})
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.xml")
	output, err := exec.CommandContext(t.Context(), harness.Binary("h2spec"), "--host", at.Hostname(), "--port", at.Port(), "--path", "/healthz",
		"--tls", "--insecure", "--strict", "--timeout", "5", "--junit-report", report).CombinedOutput() // its error is that a case failed
	text, rerr := os.ReadFile(report)
	if rerr != nil {
		t.Fatalf("%v, %v\n%s", err, rerr, output)
	}
	var suites struct {
		Suites []struct {
			Package string `xml:"package,attr"`
			Cases   []struct {
				Name    string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, suite := range suites.Suites {
		for _, c := range suite.Cases {
			count++
			if c.Failure != nil || c.Error != nil {
				failed = append(failed, suite.Package+" "+c.Name)
			}
		}
	}
	if count < 140 {
		t.Fatalf("h2spec made %d tests\n%s", count, output)
	}
	return failed
}
