package cork

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Server returns a server over TLS whose frames leave together, and the number of its connections' writes.
func http2Server(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	l := &countedListener{Listener: s.Listener}
	s.Listener, s.Config.ConnContext, s.EnableHTTP2 = Listener(l), Context, true
	if err := ConfigureHTTP2(s.Config); err != nil {
		t.Fatal(err)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, &l.writes
}

// http2Client returns a client with one connection.
func http2Client(t *testing.T) *http.Client {
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // not under test
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(t *testing.T, c *http.Client, url string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.ProtoMajor != 2 {
		t.Fatalf("answered by %s", response.Proto)
	}
	return response
}

// A response leaves in few writes, whatever its frames: its header, its body, possibly together with that, and its end. This fails when a version
// of the HTTP/2 server no longer takes its buffers from the pool of largeBuffers.
func TestFramesLeaveTogether(t *testing.T) {
	s, writes := http2Server(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(make([]byte, n))
	})
	c := http2Client(t)
	for _, row := range []struct{ size, most int64 }{{1, 3}, {5 << 10, 3}, {20 << 10, 3}, {4 << 20, 4<<20/most*5/4 + 8}} {
		if _, err := io.Copy(io.Discard, get(t, c, s.URL+"/1").Body); err != nil { // opens the connection and exchanges settings
			t.Fatal(err)
		}
		before := writes.Load()
		n, err := io.Copy(io.Discard, get(t, c, fmt.Sprintf("%s/%d", s.URL, row.size)).Body)
		if n != row.size || err != nil {
			t.Errorf("%d of %d bytes, %v", n, row.size, err)
		}
		if took := writes.Load() - before; took > row.most {
			t.Errorf("an answer of %d bytes took %d writes, want at most %d", row.size, took, row.most)
		}
	}
}

// Flushed data reach the client before the handler continues, whatever their size, beside streams that send endlessly, are not read, or are reset.
// If a byte were held back, both sides would wait for each other.
func TestFlushedFramesArrive(t *testing.T) {
	const streams, rounds = 16, 60
	seen := make([]chan struct{}, streams)
	for i := range seen {
		seen[i] = make(chan struct{})
	}
	s, _ := http2Server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			for block := make([]byte, 100<<10); r.Context().Err() == nil; {
				_, _ = w.Write(block)
			}
			return
		}
		n, _ := strconv.Atoi(r.URL.Path[1:])
		random := rand.New(rand.NewPCG(uint64(n), 1))
		for range rounds {
			_, _ = w.Write(piece(random))
			w.(http.Flusher).Flush()
			select {
			case <-seen[n]:
			case <-r.Context().Done():
				return
			}
		}
	})
	c := http2Client(t)
	unread := get(t, c, s.URL+"/endless") // its window fills up
	read, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for read.Err() == nil { // read for a while, then reset
			response := get(t, c, s.URL+"/endless")
			_, _ = io.CopyN(io.Discard, response.Body, 1<<20)
			response.Body.Close()
		}
	})
	var lockstep sync.WaitGroup
	for n := range streams {
		lockstep.Go(func() {
			body := get(t, c, fmt.Sprintf("%s/%d", s.URL, n)).Body
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for round := range rounds {
				want := piece(random)
				got := make([]byte, len(want))
				if _, err := io.ReadFull(body, got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("stream %d, round %d: %d bytes: %v", n, round, len(want), err)
					break
				}
				seen[n] <- struct{}{}
			}
			body.Close()
		})
	}
	lockstep.Wait()
	stop()
	wg.Wait()
	unread.Body.Close()
}

// piece returns some bytes: often the size of a frame or of the server's buffer, or one more or less.
func piece(random *rand.Rand) []byte {
	sizes := []int{1, 4<<10 - 9, 4 << 10, 16 << 10, 16<<10 - 9, most, most - 9, 3 * most}
	p := make([]byte, max(1, sizes[random.IntN(len(sizes))]+random.IntN(3)-1))
	for i := 0; i < len(p); i += 8 {
		p[i] = byte(random.Int())
	}
	return p
}

// A server that is shut down during responses finishes them, and sends the client a GOAWAY.
func TestFramesDrain(t *testing.T) {
	const size = 8 << 20
	want := sha256.Sum256(bytes.Repeat([]byte("0123456789abcdef"), size/16))
	began := make(chan struct{}, 2)
	s, _ := http2Server(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		began <- struct{}{}
		for range 256 {
			_, _ = w.Write(bytes.Repeat([]byte("0123456789abcdef"), size/16/256))
		}
	})
	c := http2Client(t)
	one, two := get(t, c, s.URL), get(t, c, s.URL)
	<-began
	<-began
	down := make(chan error)
	go func() { down <- s.Config.Shutdown(t.Context()) }()
	for _, response := range []*http.Response{one, two} {
		sum := sha256.New()
		n, err := io.Copy(sum, response.Body)
		if n != size || err != nil || !bytes.Equal(sum.Sum(nil), want[:]) {
			t.Errorf("%d of %d bytes, %v", n, size, err)
		}
		response.Body.Close()
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// A client that reads nothing delays only its own streams: the server still reads from it, streams that it resets end, and closing the server does
// not block.
func TestFramesToADeafClient(t *testing.T) {
	ended := make(chan uint32, 3)
	s, writes := http2Server(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Path[1:])
		for block := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
		ended <- uint32(n)
	})
	c, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // not under test
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := newDeafClient(t, c)
	ask.open(1)
	ask.open(3)
	for before, same := int64(0), 0; same < 1000; { // until the server's writes block
		ask.ping() // the server still reads it
		if now := writes.Load(); now == before && now > 10 {
			same++
		} else {
			before, same = now, 0
		}
	}
	ask.reset(3)
	if n := <-ended; n != 3 {
		t.Errorf("stream %d ended, want the one that was reset", n)
	}
	s.CloseClientConnections()
	if n := <-ended; n != 1 {
		t.Errorf("stream %d ended", n)
	}
}

// deafClient writes frames and reads none.
type deafClient struct {
	t *testing.T
	*http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
}

func newDeafClient(t *testing.T, c net.Conn) *deafClient {
	t.Helper()
	d := &deafClient{t: t, Framer: http2.NewFramer(c, nil)}
	d.encoder = hpack.NewEncoder(&d.headers)
	_, err := io.WriteString(c, http2.ClientPreface)
	d.must(errors.Join(err, d.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}), d.WriteWindowUpdate(0, 1<<30)))
	return d
}

func (d *deafClient) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *deafClient) open(stream uint32) {
	d.t.Helper()
	d.headers.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", fmt.Sprintf("/%d", stream)}} {
		d.must(d.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	d.must(d.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: d.headers.Bytes(), EndStream: true, EndHeaders: true}))
}

func (d *deafClient) reset(stream uint32) {
	d.t.Helper()
	d.must(d.WriteRSTStream(stream, http2.ErrCodeCancel))
}

// ping sends a frame that needs no response.
func (d *deafClient) ping() {
	d.t.Helper()
	var p [8]byte
	binary.BigEndian.PutUint64(p[:], 1)
	d.must(d.WritePing(true, p))
}

// Bodies that nobody reads do not stop those of other streams.
func TestUnreadBodies(t *testing.T) {
	const unread, size = 8, 1 << 20
	var began sync.WaitGroup
	began.Add(unread)
	s, _ := http2Server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unread" {
			began.Done()
			<-r.Context().Done()
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	c := http2Client(t)
	ctx, end := context.WithCancel(t.Context())
	var sent sync.WaitGroup
	post := func(path string) (*http.Response, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(make([]byte, size)))
		if err != nil {
			return nil, err
		}
		return c.Do(q)
	}
	get(t, c, s.URL) // all requests share its connection
	for range unread {
		sent.Go(func() {
			if response, err := post("/unread"); err == nil {
				response.Body.Close()
			}
		})
	}
	began.Wait()
	response, err := post("/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != strconv.Itoa(size) {
		t.Errorf("%q, %v", body, err)
	}
	end()
	sent.Wait()
}
