package h2

import (
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A response that is complete before its client grants a window is given up eventually, although the handler has removed its deadline. Otherwise its
// data and its goroutine would remain for as long as the client likes.
func TestUnreadResponseIsReset(t *testing.T) {
	c := newRawClient(t, 10, func(w http.ResponseWriter, _ *http.Request) {
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetWriteDeadline(time.Now().Add(time.Hour))
		_, _ = io.WriteString(w, "never read")
		_ = deadlines.SetWriteDeadline(time.Time{})
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.heard()
	own := c.connection()
	own.mu.Lock()
	own.srv.endMost = time.Millisecond
	own.mu.Unlock()
	c.open(1, "/", true)
	c.must(c.nc.SetReadDeadline(time.Now().Add(time.Minute))) // instead of waiting for ever
	c.resetWith(1, http2.ErrCodeInternal)
}

// A deadline that remains when the handler returns is kept: it is that of the request.
func TestDeadlineOutlivesHandler(t *testing.T) {
	at := time.Now().Add(time.Hour)
	c := newRawClient(t, 10, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(at)
		_, _ = io.WriteString(w, "read late")
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.heard()
	own := c.connection()
	c.open(1, "/", true)
	c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders }) // it waits for the window
	own.mu.Lock()
	if st := own.streams[1]; st == nil || !st.until.Equal(at) {
		t.Errorf("it is not limited by its deadline: %+v", st)
	}
	own.mu.Unlock()
	c.must(c.WriteWindowUpdate(1, 100))
	c.data(1, "read late")
}

// TestShutdownHurriesUnreadResponses ends the server while the end of a response waits for a client that does not read.
func TestShutdownHurriesUnreadResponses(t *testing.T) {
	c := newRawClient(t, 10, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "never read") },
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.heard()
	own := c.connection()
	own.mu.Lock()
	own.srv.writeMost = time.Millisecond
	own.mu.Unlock()
	c.open(1, "/", true)
	c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders }) // it waits for the window
	own.srv.shutdown()
	c.must(c.nc.SetReadDeadline(time.Now().Add(time.Minute))) // instead of waiting for ever
	c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameRSTStream && f.Header().StreamID == 1 })
}

// A header block of which a part never comes ends its connection, although another stream goes on.
func TestIncompleteHeadersEnd(t *testing.T) {
	for name, begin := range map[string]func(*rawClient) error{
		"no continuation": func(c *rawClient) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.headers("GET", "/"), EndStream: true})
		},
		"within a frame": func(c *rawClient) error {
			_, err := c.nc.Write([]byte{0, 0, 100, byte(http2.FrameHeaders), byte(http2.FlagHeadersEndHeaders), 0, 0, 0, 3, 0x82})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			nc, accepted := connected(t)
			c := rawClientOf(t, nc, accepted, &http.Server{ReadHeaderTimeout: time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			c.open(1, "/", true)
			if c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders }) == nil {
				t.Fatal("the stream has not begun")
			}
			c.must(begin(c))
			c.must(nc.SetReadDeadline(time.Now().Add(time.Minute))) // instead of waiting for ever
			for {
				if _, err := c.ReadFrame(); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal("the connection goes on")
				} else if err != nil {
					return
				}
			}
		})
	}
}
