package h2

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// The buffer of an unread body doubles, up to the declared size. If a body declares more than it sends, the buffer is at most four times what was
// sent.
func TestRoomOfBodies(t *testing.T) {
	const frame = 16 << 10
	for _, c := range []struct {
		what                  string
		declared, sent, moves int
		room                  int
	}{
		{"a small one", 300, 300, 1, 300},
		{"what has room at first", firstRoom, firstRoom, 1, firstRoom},
		{"a large one", 240 << 10, 240 << 10, 3, 240 << 10},
		{"one that declares much and sends little", 100 << 20, 10, 1, 40},
		{"one that declares much", 100 << 20, 100 << 10, 2, 2 * firstRoom},
	} {
		b := &body{declared: int64(c.declared)}
		var want []byte
		room, moves := 0, 0
		for len(want) < c.sent {
			p := bytes.Repeat([]byte{byte(len(want) / frame)}, min(frame, c.sent-len(want)))
			want = append(want, p...)
			b.add(p)
			if cap(b.data) != room {
				room = cap(b.data)
				moves++
			}
		}
		if !bytes.Equal(b.data, want) || moves != c.moves || room != c.room {
			t.Errorf("%s: moved %d times, want %d; room for %d, want %d; the data are right: %v", c.what, moves, c.moves, room, c.room, bytes.Equal(b.data, want))
		}
	}
}

// Bodies that nobody reads do not stop those of other streams, and a client cannot make the server hold more than the window of the connection.
func TestUnreadBodies(t *testing.T) {
	read := make(chan int, 1)
	c := newRawClient(t, 102, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unread" {
			<-r.Context().Done()
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		read <- int(n)
	})
	fill := func(id uint32, path string, ends bool) {
		c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers("POST", path), EndHeaders: true}))
		for sent := mostFrame; sent <= streamWindow; sent += mostFrame {
			c.must(c.WriteData(id, ends && sent == streamWindow, make([]byte, mostFrame)))
		}
	}
	id := uint32(1)
	for ; id < 2*99; id += 2 {
		fill(id, "/unread", false)
	}
	fill(id, "/", true)
	if n := <-read; n != streamWindow {
		t.Errorf("%d bytes were read", n)
	}
	for range 2 {
		id += 2
		c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers("POST", "/unread"), EndHeaders: true}))
		for range streamWindow / mostFrame {
			if c.WriteData(id, false, make([]byte, mostFrame)) != nil {
				break
			}
		}
	}
	c.goneWith(http2.ErrCodeFlowControl)
}
