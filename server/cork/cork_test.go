package cork

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// countedConn counts the writes of all connections of a listener.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

type countedListener struct {
	net.Listener
	writes atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, &l.writes}, err
}

// Over TLS and HTTP/1.1, data flushed while a connection is corked leave in one write; over HTTP/2 nothing is corked.
func TestAnswersInOneWrite(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 4000) // three records
	var l *countedListener
	writes := make(chan int64, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := l.writes.Load()
		c := Of(r)
		if r.URL.Path == "/corked" {
			c.Cork()
		}
		if n, err := w.Write(body); n != len(body) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		c.Uncork()
		writes <- l.writes.Load() - before
	}))
	l = &countedListener{Listener: s.Listener}
	s.Listener, s.Config.ConnContext, s.EnableHTTP2 = Listener(l), Context, true
	s.StartTLS()
	defer s.Close()
	for path, enough := range map[string]func(int64) bool{
		"/corked": func(n int64) bool { return n == 1 },
		"/plain":  func(n int64) bool { return n > 2 },
	} {
		for _, http2 := range []bool{false, true} {
			transport := &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // not under test
			response, err := (&http.Client{Transport: transport}).Get(s.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(response.Body)
			response.Body.Close()
			transport.CloseIdleConnections()
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%s by %s: %d bytes, %v", path, response.Proto, len(got), err)
			}
			if n := <-writes; response.ProtoMajor == 1 && !enough(n) {
				t.Errorf("%s by %s: %d writes", path, response.Proto, n)
			}
		}
	}
}

// No more is held back than there is room for, and everything leaves in order.
func TestRoom(t *testing.T) {
	var sink sinkConn
	c := newConn(&sink)
	random := rand.New(rand.NewPCG(1, 2))
	var want []byte
	for range 1000 {
		switch random.IntN(10) {
		case 0:
			c.Cork()
		case 1:
			c.Uncork()
			if len(sink.got) != len(want) {
				t.Fatalf("%d of %d bytes have left", len(sink.got), len(want))
			}
		default:
			p := make([]byte, random.IntN([]int{10, 16 << 10, room, 2 * room}[random.IntN(4)]+1))
			for i := 0; i < len(p); i += 100 {
				p[i] = byte(random.Int())
			}
			want = append(want, p...)
			if n, err := c.Write(p); n != len(p) || err != nil {
				t.Fatalf("%d of %d, %v", n, len(p), err)
			}
			if held := len(want) - len(sink.got); held >= most || held > 0 && !c.corked {
				t.Fatalf("%d bytes are held back, corked: %t", held, c.corked)
			}
		}
	}
	c.Uncork()
	if !bytes.Equal(sink.got, want) {
		t.Error("what has left is something else")
	}
	if c.held != nil {
		t.Error("an idle connection has a buffer")
	}
}

// sinkConn is a connection that records writes, or fails.
type sinkConn struct {
	net.Conn
	got []byte
	err error
}

func (c *sinkConn) Write(p []byte) (int, error) {
	c.got = append(c.got, p...)
	return len(p), c.err
}

// The error of a delayed write is returned by the next one.
func TestLateError(t *testing.T) {
	broken := errors.New("broken")
	c := newConn(&sinkConn{err: broken})
	c.Cork()
	if _, err := c.Write([]byte("a")); err != nil {
		t.Error(err)
	}
	c.Uncork()
	if _, err := c.Write([]byte("b")); !errors.Is(err, broken) {
		t.Errorf("the next write: %v", err)
	}
}

// stuckConn is a connection whose client reads nothing until told to.
type stuckConn struct {
	sinkConn
	writing, read chan struct{}
}

func (c *stuckConn) Write(p []byte) (int, error) {
	c.writing <- struct{}{}
	<-c.read
	return c.sinkConn.Write(p)
}

// While Uncork waits for a client, TLS can send its close alert.
func TestNobodyWaitsForUncork(t *testing.T) {
	stuck := &stuckConn{writing: make(chan struct{}, 2), read: make(chan struct{})}
	c := newConn(stuck)
	c.Cork()
	if _, err := c.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		c.Uncork()
		close(done)
	}()
	<-stuck.writing
	if _, err := c.Write([]byte(", alert")); err != nil {
		t.Error(err)
	}
	c.Uncork() // by another goroutine
	close(stuck.read)
	<-done
	if got := string(stuck.got); got != "answer, alert" {
		t.Errorf("%q has left", got)
	}
}

// TLS writes alerts and responses to key updates while another goroutine has corked the connection.
func TestConcurrentWrites(t *testing.T) {
	var sink sinkConn
	c := newConn(&sink)
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			record := bytes.Repeat([]byte{byte(i)}, 1000)
			for range 200 {
				if i%2 == 0 {
					c.Cork()
				}
				if _, err := c.Write(record); err != nil {
					t.Error(err)
				}
				c.Uncork()
			}
		})
	}
	writers.Wait()
	if len(sink.got) != 4*200*1000 {
		t.Fatalf("%d bytes", len(sink.got))
	}
	for record := sink.got; len(record) > 0; record = record[1000:] {
		if bytes.Count(record[:1000], record[:1]) != 1000 {
			t.Fatal("a record is torn")
		}
	}
}
