package bounded_test

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/rowlock/rowlock/resources/bounded"
)

// An answer of MostBytes is read whole, and of a longer one only that many bytes, also when it is sent compressed or has no
// end.
func TestAnswers(t *testing.T) {
	sends := func(w io.Writer, n int) {
		for part := make([]byte, 64<<10); n > 0; n -= len(part) {
			if _, err := w.Write(part[:min(n, len(part))]); err != nil {
				return
			}
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Query().Get("bytes"))
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path != "/compressed" {
			sends(w, n)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		sends(z, n)
		_ = z.Close()
	}))
	defer s.Close()
	client := &http.Client{Transport: bounded.Answers(http.DefaultTransport)}
	for _, c := range []struct {
		path  string
		bytes int
		want  error
	}{
		{"/plain", 0, nil}, {"/plain", 1, nil}, {"/plain", bounded.MostBytes, nil}, {"/plain", bounded.MostBytes + 1, bounded.ErrTooLong}, {"/plain", 1 << 60, bounded.ErrTooLong},
		{"/compressed", bounded.MostBytes, nil}, {"/compressed", bounded.MostBytes + 1, bounded.ErrTooLong},
	} {
		response, err := client.Get(s.URL + c.path + "?bytes=" + strconv.Itoa(c.bytes))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		if n != int64(min(c.bytes, bounded.MostBytes)) || !errors.Is(err, c.want) {
			t.Errorf("%s of %d bytes: %d were read: %v", c.path, c.bytes, n, err)
		}
		if _, err := response.Body.Read(make([]byte, 1)); c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s of %d bytes: can be read on: %v", c.path, c.bytes, err)
		}
		_ = response.Body.Close()
	}
}
