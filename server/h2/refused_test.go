package h2

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// noted is the end of a connection that records each write to it.
type noted struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
}

func (n *noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	n.writes = append(n.writes, bytes.Clone(p))
	n.mu.Unlock()
	return n.Conn.Write(p)
}

// The response to a client that is still sending leaves before the reset of its stream: curl drops a response that it reads together with the
// reset.
func TestAnswerLeavesBeforeReset(t *testing.T) {
	client, accepted := connected(t)
	server := &noted{Conn: accepted}
	c := rawClientOn(t, client, server, 10, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/"), EndHeaders: true}))
	c.resetWith(1, http2.ErrCodeNo)
	server.mu.Lock()
	defer server.mu.Unlock()
	answered, reset := -1, -1
	for i, p := range server.writes {
		framer := http2.NewFramer(nil, bytes.NewReader(p))
		for f, err := framer.ReadFrame(); err == nil; f, err = framer.ReadFrame() {
			switch f.Header().Type {
			case http2.FrameHeaders:
				answered = i
			case http2.FrameRSTStream:
				reset = i
			}
		}
	}
	if answered < 0 || reset <= answered {
		t.Errorf("the answer is in write %d, the reset in write %d", answered, reset)
	}
}

// closing is the end of a connection that signals when it is closed.
type closing struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *closing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// refusedUnread returns a client that is still sending on stream 1 and does not read the response, which is being written. most limits that write.
func refusedUnread(t *testing.T, most time.Duration) (c *rawClient, server *closing, st *stream) {
	t.Helper()
	client, accepted := net.Pipe() // without a buffer: each write waits for a read
	server = &closing{Conn: accepted, closed: make(chan struct{})}
	c = rawClientOn(t, client, server, 10, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	c.heard()
	own := c.connection()
	own.mu.Lock()
	for own.writing { // the response to the PING
		own.mu.Unlock()
		runtime.Gosched()
		own.mu.Lock()
	}
	before := own.writes
	own.srv.writeMost = most
	own.mu.Unlock()
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/"), EndHeaders: true}))
	for {
		own.mu.Lock()
		if own.streams[1] != nil {
			st = own.streams[1]
		}
		stuck := own.writes > before
		own.mu.Unlock()
		if stuck {
			return c, server, st
		}
		runtime.Gosched()
	}
}

// A client that is still sending and does not read the response loses its connection: otherwise its handlers would be stuck for as long as it
// likes.
func TestRefusedUnreadIsCut(t *testing.T) {
	_, server, _ := refusedUnread(t, 10*time.Millisecond)
	select {
	case <-server.closed:
	case <-time.After(time.Minute):
		t.Error("it is stuck for ever")
	}
}

// A stream that its client has ended while the response was being written is neither ended again nor reset.
func TestEndedWhileRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*rawClient) error
		want error
	}{
		{"by a reset", func(c *rawClient) error { return c.WriteRSTStream(1, http2.ErrCodeCancel) },
			http2.StreamError{StreamID: 1, Code: http2.ErrCodeCancel}},
		{"by all of its body", func(c *rawClient) error { return c.WriteData(1, true, nil) }, errOver},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _, st := refusedUnread(t, time.Hour)
			if st == nil {
				t.Fatal("the stream is closed before its answer is sent")
			}
			client.must(c.end(client))
			own := client.connection()
			state := func() (sent, over bool) {
				own.mu.Lock()
				defer own.mu.Unlock()
				return st.remoteClosed || st.closed, own.handlers == 0
			}
			for sent, _ := state(); !sent; sent, _ = state() {
				runtime.Gosched()
			}
			go func() {
				for _, over := state(); !over; _, over = state() {
					runtime.Gosched()
				}
				_ = client.WritePing(false, [8]byte{1}) // reading ends after it, or with the connection
			}()
			if f := client.until(func(f http2.Frame) bool {
				return f.Header().Type == http2.FrameRSTStream || f.Header().Type == http2.FramePing
			}); f == nil ||
				f.Header().Type != http2.FramePing {
				t.Errorf("%v, want no reset", f)
			}
			own.mu.Lock()
			defer own.mu.Unlock()
			if own.closed.next != 1 || !errors.Is(st.err, c.want) {
				t.Errorf("it was ended %d times, the last one with %v", own.closed.next, st.err)
			}
		})
	}
}
