package aggregate_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The other server gets the client's Accept-Encoding, or gzip if the client sends none. The client gets no encoding that it did not ask
// for.
func TestEncodingOfAnswers(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	for _, path := range []string{apples + "/encoded", apples + "/namespaces/n/apples/a/encoded"} { // on connections of their own, and on shared ones
		for accepted, want := range map[string]string{"": "gzip", "gzip": "gzip", "gzip, deflate": "gzip, deflate", "identity": "identity"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "known")
			if accepted != "" {
				r.Header.Set("Accept-Encoding", accepted)
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Error(err)
			}
			answer.Body.Close()
			if got := answer.Header.Get("Asked"); got != want {
				t.Errorf("%s: of a client that accepts %q, the server is asked for %q, want %q", path, accepted, got, want)
			}
			zipped := answer.Header.Get("Content-Encoding") == "gzip"
			if zipped != strings.Contains(accepted, "gzip") || !zipped && string(body) != "an apple" {
				t.Errorf("%s: a client that accepts %q is answered in %q: %q", path, accepted, answer.Header.Get("Content-Encoding"), body)
			}
		}
	}
}
