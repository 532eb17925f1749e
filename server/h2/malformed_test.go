package h2

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A client that resets its requests gets no more handlers than others, and is disconnected (CVE-2023-44487).
func TestRapidResets(t *testing.T) {
	var running, most atomic.Int64
	free := make(chan struct{})
	c := newRawClient(t, 10, func(http.ResponseWriter, *http.Request) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-free
		running.Add(-1)
	})
	go func() {
		for id := uint32(1); ; id += 2 {
			c.block.Reset()
			if c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers("GET", "/"), EndStream: true, EndHeaders: true}) != nil ||
				c.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				return
			}
			if id > 1000 {
				return
			}
		}
	}()
	c.goneWith(http2.ErrCodeEnhanceYourCalm)
	close(free)
	if most.Load() > 10 {
		t.Errorf("%d handlers ran at once, of 10 that are allowed", most.Load())
	}
}

// Frames without progress end the connection eventually (RFC 9113, 10.5), and so do endless requests.
func TestFloods(t *testing.T) {
	fields := func(c *rawClient) []byte { return c.headers("GET", "/", "x", strings.Repeat("y", 1000)) }
	for name, row := range map[string]struct {
		flood func(c *rawClient, n int) error
		want  http2.ErrCode
	}{
		"ping":     {func(c *rawClient, _ int) error { return c.WritePing(false, [8]byte{}) }, http2.ErrCodeEnhanceYourCalm},
		"settings": {func(c *rawClient, _ int) error { return c.WriteSettings() }, http2.ErrCodeEnhanceYourCalm},
		"priority": {func(c *rawClient, _ int) error { return c.WritePriority(1, http2.PriorityParam{}) }, http2.ErrCodeEnhanceYourCalm},
		"unknown":  {func(c *rawClient, _ int) error { return c.WriteRawFrame(99, 0, 0, nil) }, http2.ErrCodeEnhanceYourCalm},
		"empty data": {func(c *rawClient, n int) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/"), EndHeaders: true})
			}
			return c.WriteData(1, false, nil)
		}, http2.ErrCodeEnhanceYourCalm},
		"padding": {func(c *rawClient, n int) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/"), EndHeaders: true})
			}
			return c.WriteDataPadded(1, false, nil, []byte{0})
		}, http2.ErrCodeEnhanceYourCalm},
		"empty continuations": {func(c *rawClient, n int) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields(c), EndStream: true})
			}
			return c.WriteContinuation(1, false, nil)
		}, http2.ErrCodeEnhanceYourCalm},
		"long continuations": {func(c *rawClient, n int) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields(c), EndStream: true})
			}
			return c.WriteContinuation(1, false, make([]byte, 16<<10))
		}, http2.ErrCodeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRawClient(t, 10, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
			go func() {
				for n := range 10 * calmMost {
					if row.flood(c, n) != nil {
						return
					}
				}
			}()
			c.goneWith(row.want)
		})
	}
}

// An error in a request or a frame ends the stream or the connection (RFC 9113, 5.1, 6, 8.1.1).
func TestMalformed(t *testing.T) {
	post := func(c *rawClient, id uint32, more ...string) {
		c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers("POST", "/", more...), EndHeaders: true}))
	}
	for name, row := range map[string]struct {
		send func(c *rawClient)
		want http2.ErrCode
		conn bool
	}{
		"more than the declared length": {send: func(c *rawClient) { post(c, 1, "content-length", "1"); c.must(c.WriteData(1, true, []byte("ab"))) }, want: http2.ErrCodeProtocol},
		"less than the declared length": {send: func(c *rawClient) { post(c, 1, "content-length", "3"); c.must(c.WriteData(1, true, []byte("ab"))) }, want: http2.ErrCodeProtocol},
		"a length and no body": {send: func(c *rawClient) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/", "content-length", "3"), EndHeaders: true, EndStream: true}))
		}, want: http2.ErrCodeProtocol},
		"capital letters":           {send: func(c *rawClient) { post(c, 1, "X-Upper", "1") }, want: http2.ErrCodeProtocol},
		"a line in a value":         {send: func(c *rawClient) { post(c, 1, "x", "1\r\ny: 2") }, want: http2.ErrCodeProtocol},
		"a pseudo field late":       {send: func(c *rawClient) { post(c, 1, "x", "1", ":path", "/y") }, want: http2.ErrCodeProtocol},
		"a pseudo field twice":      {send: func(c *rawClient) { post(c, 1, ":path", "/y") }, want: http2.ErrCodeProtocol},
		"a pseudo field of answers": {send: func(c *rawClient) { post(c, 1, ":status", "200") }, want: http2.ErrCodeProtocol},
		"a protocol":                {send: func(c *rawClient) { post(c, 1); post(c, 3, ":protocol", "websocket") }, want: http2.ErrCodeProtocol},
		"trailers that go on":       {send: func(c *rawClient) { post(c, 1); post(c, 1) }, want: http2.ErrCodeProtocol},
		"data beyond the window": {send: func(c *rawClient) {
			post(c, 1)
			for range streamWindow/mostFrame + 1 {
				if c.WriteData(1, false, make([]byte, mostFrame)) != nil {
					break
				}
			}
		}, want: http2.ErrCodeFlowControl},
		"a window beyond all":        {send: func(c *rawClient) { post(c, 1); c.must(c.WriteWindowUpdate(1, mostWindow)) }, want: http2.ErrCodeFlowControl},
		"a window of all beyond all": {send: func(c *rawClient) { c.must(c.WriteWindowUpdate(0, mostWindow)) }, want: http2.ErrCodeFlowControl, conn: true},
		"an even stream":             {send: func(c *rawClient) { post(c, 2) }, want: http2.ErrCodeProtocol, conn: true},
		"a stream that goes back":    {send: func(c *rawClient) { post(c, 5); post(c, 3) }, want: http2.ErrCodeProtocol, conn: true},
		"data before a stream":       {send: func(c *rawClient) { c.must(c.WriteData(1, false, nil)) }, want: http2.ErrCodeProtocol, conn: true},
		"a frame amidst a block": {send: func(c *rawClient) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1}))
			c.must(c.WritePing(false, [8]byte{}))
		}, want: http2.ErrCodeProtocol, conn: true},
		"padding that is no less": {send: func(c *rawClient) {
			post(c, 1)
			c.must(c.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{2, 0}))
		}, want: http2.ErrCodeProtocol, conn: true},
		"a block that is none": {send: func(c *rawClient) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x80}, EndHeaders: true}))
		}, want: http2.ErrCodeCompression, conn: true},
		"a push":                   {send: func(c *rawClient) { c.must(c.WriteRawFrame(http2.FramePushPromise, 0, 1, make([]byte, 4))) }, want: http2.ErrCodeProtocol, conn: true},
		"a frame that is too long": {send: func(c *rawClient) { _, err := c.nc.Write([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1}); c.must(err) }, want: http2.ErrCodeFrameSize, conn: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRawClient(t, 10, func(_ http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(name, "data beyond") { // the handler does not read it
					<-r.Context().Done()
				}
				_, _ = io.Copy(io.Discard, r.Body)
			})
			row.send(c)
			if row.conn {
				c.goneWith(row.want)
				return
			}
			f, _ := c.until(func(f http2.Frame) bool {
				return f.Header().Type == http2.FrameRSTStream || f.Header().Type == http2.FrameGoAway
			}).(*http2.RSTStreamFrame)
			if f == nil || f.ErrCode != row.want {
				t.Errorf("%v, want a reset with %s", f, row.want)
			}
			c.must(c.WritePing(false, [8]byte{1})) // the connection still works
			if c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing }) == nil {
				t.Error("the connection ended")
			}
		})
	}
}

// A header that is too large gets a response without reaching the handler.
func TestLargeHeader(t *testing.T) {
	c := newRawClient(t, 10, func(http.ResponseWriter, *http.Request) { t.Error("was answered") })
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	block := c.headers("GET", "/", "x", strings.Repeat("y", 40<<10), "z", strings.Repeat("y", 40<<10))
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:10000], EndStream: true}))
	for block = block[10000:]; len(block) > 10000; block = block[10000:] {
		c.must(c.WriteContinuation(1, false, block[:10000]))
	}
	c.must(c.WriteContinuation(1, true, block))
	f, _ := c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders }).(*http2.MetaHeadersFrame)
	if f == nil || f.PseudoValue("status") != "431" {
		t.Errorf("answered by %v", f)
	}
	if d, _ := c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData }).(*http2.DataFrame); d == nil || !strings.HasPrefix(string(d.Data()), "<h1>HTTP Error 431</h1>") {
		t.Errorf("answered by %v", d)
	}
}

// A block may have many frames, as with golang.org/x/net/http2.
func TestManyContinuations(t *testing.T) {
	c := newRawClient(t, 10, func(_ http.ResponseWriter, r *http.Request) {
		if len(r.Header.Get("X")) != 300 {
			t.Errorf("%v", r.Header)
		}
	})
	block := c.headers("GET", "/", "x", strings.Repeat("{", 300)) // Huffman coding makes it longer
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:1], EndStream: true}))
	for i := 1; i < len(block); i++ {
		c.must(c.WriteContinuation(1, i == len(block)-1, block[i:i+1]))
	}
	if c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders }) == nil {
		t.Error("not answered")
	}
}

// Clients do not repeat a request that ended the connection: GOAWAY counts its stream as processed. Bytes that are no frame have no stream.
func TestLastStreamOfGoAway(t *testing.T) {
	for name, row := range map[string]struct {
		send func(c *rawClient)
		want uint32
	}{
		"a block that is none": {func(c *rawClient) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x80}, EndHeaders: true}))
		}, 3},
		"a block that goes on as none": {func(c *rawClient) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 5}))
			c.must(c.WriteContinuation(5, true, []byte{0x80}))
		}, 5},
		"data of no stream":        {func(c *rawClient) { c.must(c.WriteData(7, true, nil)) }, 7},
		"a window of no stream":    {func(c *rawClient) { c.must(c.WriteWindowUpdate(9, 1)) }, 9},
		"a ping of a stream":       {func(c *rawClient) { c.must(c.WriteRawFrame(http2.FramePing, 0, 11, make([]byte, 8))) }, 0},
		"a reset that is too long": {func(c *rawClient) { c.must(c.WriteRawFrame(http2.FrameRSTStream, 0, 13, make([]byte, 5))) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRawClient(t, 10, func(http.ResponseWriter, *http.Request) {})
			row.send(c)
			f, _ := c.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway }).(*http2.GoAwayFrame)
			if f == nil || f.LastStreamID != row.want {
				t.Errorf("%v, want the last stream %d", f, row.want)
			}
		})
	}
}

// The last stream of a GOAWAY is not higher than that of an earlier GOAWAY.
func TestLastStreamOfSecondGoAway(t *testing.T) {
	c := newRawClient(t, 10, func(http.ResponseWriter, *http.Request) {})
	c.must(c.WriteGoAway(0, http2.ErrCodeNo, nil)) // the server answers with one
	c.must(c.WriteWindowUpdate(8, 1))
	f, _ := c.until(func(f http2.Frame) bool {
		g, ok := f.(*http2.GoAwayFrame)
		return ok && g.ErrCode == http2.ErrCodeProtocol
	}).(*http2.GoAwayFrame)
	if f == nil || f.LastStreamID != 0 {
		t.Errorf("%v, want the last stream 0", f)
	}
}

// Trailers that were not announced are ignored. Announced trailers may not be fields that are allowed in headers only.
func TestTrailersThatMayNotBe(t *testing.T) {
	for announced, want := range map[string]http2.FrameType{"": http2.FrameHeaders, "authorization": http2.FrameRSTStream} {
		c := newRawClient(t, 10, func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil && len(r.Trailer) > 0 {
				t.Errorf("given the trailers %v", r.Trailer)
			}
		})
		var more []string
		if announced != "" {
			more = []string{"trailer", announced}
		}
		c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers("POST", "/", more...), EndHeaders: true}))
		c.block.Reset()
		c.must(c.encoder.WriteField(hpack.HeaderField{Name: "authorization", Value: "Bearer x"}))
		c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: true}))
		if f := c.until(func(f http2.Frame) bool { return f.Header().StreamID == 1 }); f == nil || f.Header().Type != want {
			t.Errorf("announced %q: %v, want a frame %v", announced, f, want)
		}
	}
}
