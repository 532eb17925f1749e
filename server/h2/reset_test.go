package h2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// connection returns the only connection of the server.
func (c *rawClient) connection() (own *conn) {
	c.own.mu.Lock()
	defer c.own.mu.Unlock()
	for own = range c.own.conns {
	}
	return own
}

// heard waits until the server has read everything that was sent.
func (c *rawClient) heard() {
	c.t.Helper()
	c.must(c.WritePing(false, [8]byte{9}))
	f := c.until(func(f http2.Frame) bool {
		p, ok := f.(*http2.PingFrame)
		return ok && p.IsAck() && p.Data == [8]byte{9}
	})
	if f == nil {
		c.t.Fatal("the connection ended")
	}
}

// A handler never takes a part of a body for the whole, even if everything had arrived before the stream was reset or the connection ended. A
// handler that has read everything gets io.EOF.
func TestBodyOfWhatIsOver(t *testing.T) {
	for name, end := range map[string]func(c *rawClient){
		"reset": func(c *rawClient) {
			c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
			c.must(c.WriteRSTStream(3, http2.ErrCodeCancel))
			c.heard()
		},
		"connection": func(c *rawClient) {
			c.nc.Close()
			c.own.serving.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			const body = "kind: ConfigMap"
			began, free, errs := make(chan struct{}), make(chan struct{}), make(chan error)
			c := newRawClient(t, 10, func(_ http.ResponseWriter, r *http.Request) {
				part := make([]byte, len(body))
				if r.URL.Path == "/part" {
					part = part[:4]
				}
				_, err := io.ReadFull(r.Body, part)
				began <- struct{}{}
				<-free
				_, more := io.ReadAll(r.Body)
				errs <- errors.Join(err, more)
			})
			ask := func(id uint32, path string) {
				c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers("POST", path), EndHeaders: true}))
				c.must(c.WriteData(id, true, []byte(body)))
				<-began
			}
			ask(1, "/part")
			ask(3, "/whole")
			c.heard()
			end(c)
			var failed int
			for range 2 {
				free <- struct{}{}
				if err := <-errs; err != nil {
					failed++
				}
			}
			if failed != 1 {
				t.Errorf("%d of 2 bodies ended with an error, want that of which a part was read", failed)
			}
		})
	}
}

// A reset stream does not let the reading goroutine rest, even while its handler runs.
func TestResetOfBulk(t *testing.T) {
	wrote, free := make(chan struct{}), make(chan struct{})
	c := newRawClient(t, 10, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 2*largeRoom))
		wrote <- struct{}{}
		<-free
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: mostWindow})
	defer close(free)
	c.must(c.WriteWindowUpdate(0, 1<<30))
	c.open(1, "/", true)
	<-wrote
	bulk := func() int {
		own := c.connection()
		own.mu.Lock()
		defer own.mu.Unlock()
		return len(own.bulk)
	}
	if n := bulk(); n != 1 {
		t.Fatalf("%d streams have sent much, want 1", n)
	}
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	c.heard()
	if n := bulk(); n != 0 {
		t.Errorf("%d streams have sent much, want none", n)
	}
}

// Padding uses the windows and is credited back, because nothing reads it.
func TestPaddingAlone(t *testing.T) {
	got := make(chan string, 1)
	c := newRawClient(t, 10, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		got <- string(body)
	})
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/"), EndHeaders: true}))
	padding := make([]byte, 255)
	for range 2 * streamWindow / 256 {
		c.must(c.WriteDataPadded(1, false, nil, padding))
	}
	c.must(c.WriteData(1, true, []byte("x")))
	if body := <-got; body != "x" {
		t.Errorf("the handler read %q", body)
	}
}

// No frame of a stream follows its reset, not even the end of a response whose last data were being written.
func TestNoTrailersAfterReset(t *testing.T) {
	reset, began := make(chan struct{}), make(chan struct{})
	client, accepted := net.Pipe() // without a buffer: each write waits for a read
	c := rawClientOn(t, client, accepted, 10, func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(reset) })
		close(began)
		w.Header().Set("Trailer", "X-After")
		_, _ = w.Write(make([]byte, 40<<10))
		w.Header().Set("X-After", "1")
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: mostWindow})
	c.must(c.WriteWindowUpdate(0, 1<<30))
	c.heard()
	c.open(1, "/", true)
	<-began
	own := c.connection()
	for stuck := false; !stuck; runtime.Gosched() { // stream 1 has used the window for its write
		own.mu.Lock()
		stuck = own.window < 1<<30+initialWindow
		own.mu.Unlock()
	}
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	<-reset
	c.must(c.WritePing(false, [8]byte{9}))
	blocks := 0
	c.until(func(f http2.Frame) bool {
		if f.Header().Type == http2.FrameHeaders {
			blocks++
		}
		return f.Header().Type == http2.FramePing
	})
	if blocks != 1 {
		t.Errorf("%d blocks of fields, want the header alone", blocks)
	}
}

// A connection that begins during a shutdown gets a GOAWAY, after the SETTINGS, which come first.
func TestBeginsWhileServerEnds(t *testing.T) {
	client, accepted := net.Pipe()
	own := newServer(&http.Server{})
	own.shutdown()
	served := make(chan struct{})
	go func() {
		own.newConn(accepted, t.Context(), http.NotFoundHandler()).serve()
		close(served)
	}()
	f := http2.NewFramer(client, client)
	first, err := f.ReadFrame()
	if _, ok := first.(*http2.SettingsFrame); !ok {
		t.Errorf("%v came first: %v", first, err)
	}
	for away := false; !away; {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		_, away = frame.(*http2.GoAwayFrame)
	}
	client.Close()
	<-served
	own.ended()
}

// A connection retains nothing of the header of a finished request.
func TestForgetsHeaders(t *testing.T) {
	var r headerReader
	r.init(1 << 20)
	var block strings.Builder
	e := hpack.NewEncoder(&block)
	for range 1000 {
		if err := e.WriteField(hpack.HeaderField{Name: "x", Value: "y"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.decode([]byte(block.String())); err != nil || len(r.fields) != 1000 {
		t.Fatal(len(r.fields), err)
	}
	r.forget()
	if cap(r.fields) > keptFields {
		t.Errorf("room for %d fields is kept", cap(r.fields))
	}
	r.fields = append(r.fields, hpack.HeaderField{Name: "x", Value: "large"})
	r.forget()
	if f := r.fields[:1][0]; f != (hpack.HeaderField{}) {
		t.Errorf("%v is kept", f)
	}
}

// A client that causes 100 (Continue) responses without reading them is disconnected eventually.
func TestContinueUnread(t *testing.T) {
	client, accepted := net.Pipe()
	c := rawClientOn(t, client, accepted, 10, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	c.heard()
	own := c.connection()
	for id := uint32(1); id < 2*(controlMost+100); id += 2 {
		own.mu.Lock()
		before := len(own.out)
		own.mu.Unlock()
		block := c.headers("POST", "/", "expect", "100-continue")
		if c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}) != nil {
			return
		}
		for said := false; !said; runtime.Gosched() {
			own.mu.Lock()
			said = len(own.out) != before || own.ended || id == 1 && own.writing
			own.mu.Unlock()
		}
		if c.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			return
		}
	}
	t.Errorf("%d bytes wait for the client", len(own.out))
}

// While large responses are being sent the reading goroutine may rest, but not if a client that grants small windows would have to wait, and not
// merely for credits of the connection.
func TestRestsWhereNobodyWaits(t *testing.T) {
	for _, row := range []struct {
		stream, conn, initial int64
		bulk, want            bool
	}{
		{stream: restRoom, conn: restRoom, initial: restRoom, bulk: true, want: true},
		{stream: restRoom, conn: restRoom, initial: restRoom},
		{stream: restRoom - 1, conn: restRoom, initial: wideWindow - 1, bulk: true},
		{stream: 0, conn: restRoom, initial: wideWindow, bulk: true, want: true},
		{stream: wideWindow, conn: restRoom - 1, initial: wideWindow, bulk: true},
	} {
		c := &conn{window: row.conn, initial: row.initial}
		st := &stream{c: c, window: row.stream}
		if row.bulk {
			st.isBulk()
		}
		if got := c.mayRest(); got != row.want {
			t.Errorf("%+v: rests: %t", row, got)
		}
	}
}
