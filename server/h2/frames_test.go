package h2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawClient writes any frames.
type rawClient struct {
	t *testing.T
	*http2.Framer
	nc      net.Conn
	block   bytes.Buffer
	encoder *hpack.Encoder
	own     *server
}

// newRawClient returns a client connected to a server of h that allows that many streams.
func newRawClient(t *testing.T, streams int, h http.HandlerFunc, settings ...http2.Setting) *rawClient {
	t.Helper()
	nc, accepted := connected(t)
	return rawClientOn(t, nc, accepted, streams, h, settings...)
}

// connected returns both ends of a connection.
func connected(t *testing.T) (nc, accepted net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if nc, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return nc, accepted
}

// rawClientOn is newRawClient on the ends of a connection.
func rawClientOn(t *testing.T, nc, accepted net.Conn, streams int, h http.HandlerFunc, settings ...http2.Setting) *rawClient {
	t.Helper()
	return rawClientOf(t, nc, accepted, &http.Server{HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams}, MaxHeaderBytes: 64 << 10}, h, settings...)
}

// rawClientOf is rawClientOn with a server's configuration.
func rawClientOf(t *testing.T, nc, accepted net.Conn, config *http.Server, h http.HandlerFunc, settings ...http2.Setting) *rawClient {
	t.Helper()
	own := newServer(config)
	go own.newConn(accepted, t.Context(), h).serve()
	c := &rawClient{t: t, Framer: http2.NewFramer(nc, nc), nc: nc, own: own}
	c.encoder = hpack.NewEncoder(&c.block)
	c.AllowIllegalWrites = true
	t.Cleanup(func() {
		nc.Close()
		own.ended()
	})
	_, err := io.WriteString(nc, http2.ClientPreface)
	c.must(errors.Join(err, c.WriteSettings(settings...)))
	return c
}

func (c *rawClient) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// headers returns the header block of a request, with further fields.
func (c *rawClient) headers(method, path string, more ...string) []byte {
	c.block.Reset()
	for i, f := range append([]string{":method", method, ":scheme", "https", ":authority", "x", ":path", path}, more...) {
		if i%2 == 1 {
			name := append([]string{":method", method, ":scheme", "https", ":authority", "x", ":path", path}, more...)[i-1]
			c.must(c.encoder.WriteField(hpack.HeaderField{Name: name, Value: f}))
		}
	}
	return c.block.Bytes()
}

func (c *rawClient) open(id uint32, path string, ends bool) {
	c.t.Helper()
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers("GET", path), EndStream: ends, EndHeaders: true}))
}

// until reads until a matching frame, or the end of the connection, for which it returns nil.
func (c *rawClient) until(wanted func(http2.Frame) bool) http2.Frame {
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return nil
		}
		if wanted(f) {
			return f
		}
	}
}

// goneWith reads until the server's GOAWAY for an error.
func (c *rawClient) goneWith(want http2.ErrCode) {
	c.t.Helper()
	f, _ := c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway }).(*http2.GoAwayFrame)
	if f == nil || f.ErrCode != want {
		c.t.Errorf("the connection ended with %v, want %s", f, want)
	}
}

// resetWith reads until the server resets a stream.
func (c *rawClient) resetWith(id uint32, want http2.ErrCode) {
	c.t.Helper()
	f, _ := c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameRSTStream }).(*http2.RSTStreamFrame)
	if f == nil || f.StreamID != id || f.ErrCode != want {
		c.t.Errorf("%v, want a reset of %d with %s", f, id, want)
	}
}

// A stream never sends more than its window and the connection's allow, however these change, and no frame exceeds the client's maximum.
func TestWindows(t *testing.T) {
	const size = 300 << 10
	c := newRawClient(t, 10, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) },
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 20000})
	streams := map[uint32]int{1: 10, 3: 10}
	conn := 65535
	c.open(1, "/", true)
	c.open(3, "/", true)
	got := map[uint32]int{}
	for step, ended := 0, 0; ended < 2; step++ {
		f, err := c.ReadFrame()
		c.must(err)
		d, ok := f.(*http2.DataFrame)
		if !ok {
			continue
		}
		n := len(d.Data())
		got[d.StreamID] += n
		streams[d.StreamID] -= n
		if conn -= n; conn < 0 || streams[d.StreamID] < 0 || n > 20000 {
			t.Fatalf("stream %d: %d bytes, windows are %d and %d", d.StreamID, n, streams[d.StreamID], conn)
		}
		if d.StreamEnded() {
			ended++
			continue
		}
		if n == 0 {
			t.Fatal("an empty frame")
		}
		if streams[d.StreamID] == 0 {
			more := 1 + step*step%50000
			streams[d.StreamID] += more
			c.must(c.WriteWindowUpdate(d.StreamID, uint32(more)))
		}
		if conn < 100 {
			conn += 30000
			c.must(c.WriteWindowUpdate(0, 30000))
		}
	}
	if got[1] != size || got[3] != size {
		t.Errorf("%v", got)
	}
}

// When a setting makes a window negative, the stream waits until updates have made it positive (RFC 9113, 6.9.2).
func TestNegativeWindow(t *testing.T) {
	c := newRawClient(t, 10, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 200)) }, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	data := func() int {
		f, _ := c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData }).(*http2.DataFrame)
		return len(f.Data())
	}
	c.open(1, "/", true)
	if n := data(); n != 100 {
		t.Fatalf("%d bytes", n)
	}
	c.must(c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 40})) // the window is -60 now
	c.must(c.WriteWindowUpdate(1, 60))
	c.must(c.WriteWindowUpdate(1, 7))
	if n := data(); n != 7 {
		t.Errorf("%d bytes", n)
	}
}

// A reset ends every wait of a handler, while another handler is stuck in a write to a client that does not read.
func TestResetsOfWhoWaits(t *testing.T) {
	ended := make(chan string, 8)
	began := make(chan string, 8)
	client, accepted := net.Pipe() // without a buffer: each write waits for a read
	c := rawClientOn(t, client, accepted, 10, func(w http.ResponseWriter, r *http.Request) {
		began <- r.URL.Path
		defer func() { ended <- r.URL.Path }()
		switch r.URL.Path {
		case "/reads":
			_, _ = io.Copy(io.Discard, r.Body)
		case "/waits":
			<-r.Context().Done()
		default:
			for block := make([]byte, 1<<20); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: mostWindow})
	c.must(c.WriteWindowUpdate(0, 1<<30))
	c.must(c.WritePing(false, [8]byte{}))
	c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing }) // no other write is in progress
	c.open(1, "/writes", true)
	<-began
	own := c.connection()
	for stuck := false; !stuck; runtime.Gosched() { // stream 1 has used the window for its write
		own.mu.Lock()
		stuck = own.window < 1<<30+initialWindow
		own.mu.Unlock()
	}
	for i, path := range []string{"/writes-too", "/reads", "/waits"} {
		id := uint32(3 + 2*i)
		c.open(id, path, false)
		if got := <-began; got != path {
			t.Fatal(got)
		}
		c.must(c.WriteRSTStream(id, http2.ErrCodeCancel))
		if got := <-ended; got != path {
			t.Errorf("%s ended, want %s", got, path)
		}
	}
	c.nc.Close()
	if got := <-ended; got != "/writes" {
		t.Error(got)
	}
}

// A handler stuck in a write to a client that does not read ends soon after its stream, whichever side has ended that.
func TestEndsOfWhoIsStuck(t *testing.T) {
	for name, end := range map[string]func(*rawClient, http.ResponseWriter){
		"by its client": func(c *rawClient, _ http.ResponseWriter) { c.must(c.WriteRSTStream(1, http2.ErrCodeCancel)) },
		"by its deadline": func(c *rawClient, w http.ResponseWriter) {
			c.must(http.NewResponseController(w).SetWriteDeadline(time.Now()))
		},
		"by its deadline, later": func(c *rawClient, w http.ResponseWriter) {
			c.must(http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Millisecond)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan http.ResponseWriter), make(chan struct{})
			client, accepted := net.Pipe() // without a buffer
			c := rawClientOn(t, client, accepted, 10, func(w http.ResponseWriter, _ *http.Request) {
				defer close(ended)
				began <- w
				for block := make([]byte, 1<<20); ; {
					if _, err := w.Write(block); err != nil {
						return
					}
				}
			}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: mostWindow})
			c.must(c.WriteWindowUpdate(0, 1<<30))
			c.must(c.WritePing(false, [8]byte{}))
			c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing }) // no other write is in progress
			own := c.connection()
			own.mu.Lock()
			own.srv.writeMost = 10 * time.Millisecond
			own.mu.Unlock()
			c.open(1, "/", true)
			w := <-began
			for stuck := false; !stuck; runtime.Gosched() { // the handler has used the window for its write
				own.mu.Lock()
				stuck = own.window < 1<<30+initialWindow
				own.mu.Unlock()
			}
			end(c, w)
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("it is stuck for ever")
			}
		})
	}
}

// Frames that a client sends before it knows of the reset of its stream are no error (RFC 9113, 5.1).
func TestLateFrames(t *testing.T) {
	c := newRawClient(t, 10, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/"), EndHeaders: true}))
	c.resetWith(1, http2.ErrCodeNo)
	c.must(c.WriteData(1, false, []byte("late")))
	c.must(c.WriteWindowUpdate(1, 1))
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/"), EndHeaders: true, EndStream: true}))
	c.must(c.WritePing(false, [8]byte{7}))
	f := c.until(func(f http2.Frame) bool {
		return f.Header().Type != http2.FrameWindowUpdate && f.Header().Type != http2.FrameSettings
	})
	if f == nil || f.Header().Type != http2.FramePing {
		t.Errorf("answered by %v", f)
	}
}

// Streams in excess of the maximum are refused, which says that they were not processed (RFC 9113, 8.7).
func TestTooManyStreams(t *testing.T) {
	free := make(chan struct{})
	c := newRawClient(t, 2, func(http.ResponseWriter, *http.Request) { <-free })
	c.open(1, "/", true)
	c.open(3, "/", true)
	c.open(5, "/", true)
	c.resetWith(5, http2.ErrCodeRefusedStream)
	close(free)
}

// A connection without requests ends, and one that is shut down ends after its responses: later requests are not processed (RFC 9113, 6.8).
func TestGoingAway(t *testing.T) {
	free := make(chan struct{})
	var seen sync.Map
	c := newRawClient(t, 10, func(_ http.ResponseWriter, r *http.Request) {
		seen.Store(r.URL.Path, true)
		<-free
	})
	c.open(1, "/one", true)
	c.must(c.WritePing(false, [8]byte{}))
	c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing })
	c.own.shutdown()
	c.goneWith(http2.ErrCodeNo)
	c.open(3, "/two", false)
	c.must(c.WriteData(3, true, []byte("more")))
	c.must(c.WritePing(false, [8]byte{}))
	c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing })
	close(free)
	if f := c.until(func(f http2.Frame) bool { return f.Header().StreamID == 1 }); f == nil {
		t.Error("the request was not answered")
	}
	for {
		if _, err := c.ReadFrame(); err != nil {
			break
		}
	}
	if _, ok := seen.Load("/two"); ok {
		t.Error("a request was answered after the connection was said to end")
	}
}

// A connection without requests ends after IdleTimeout.
func TestIdleTimeout(t *testing.T) {
	for _, asks := range []bool{false, true} {
		t.Run(fmt.Sprint(asks), func(t *testing.T) {
			client, nc := net.Pipe()
			own := newServer(&http.Server{IdleTimeout: 20 * time.Millisecond})
			served := make(chan struct{})
			go func() {
				own.newConn(nc, t.Context(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).serve()
				close(served)
			}()
			c := &rawClient{t: t, Framer: http2.NewFramer(client, client), nc: client}
			c.encoder = hpack.NewEncoder(&c.block)
			go func() {
				_, _ = io.WriteString(client, http2.ClientPreface)
				_ = c.WriteSettings()
				if asks {
					_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("GET", "/"), EndStream: true, EndHeaders: true})
				}
			}()
			c.goneWith(http2.ErrCodeNo)
			client.Close()
			<-served
			own.ended()
		})
	}
}
