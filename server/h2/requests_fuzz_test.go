package h2

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// FuzzRequests makes requests of bytes, gives them to this server and to golang.org/x/net/http2's, one after the other on a connection, and compares
// status, fields, body, trailers and error of each response, and the end of the connection.
func FuzzRequests(f *testing.F) {
	random := rand.NewChaCha8([32]byte{1})
	for n := range 40 {
		seed := make([]byte, 5*n)
		_, _ = random.Read(seed)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		requests := requestsOf(choices)
		var answers [2][]string
		for i := range answers {
			answers[i] = answersOf(t, requests, i == 1)
		}
		for i, want := range answers[0] {
			if i < len(answers[1]) && len(requests[i].data) > 0 && strings.HasSuffix(want, ends+"PROTOCOL_ERROR") && strings.HasSuffix(answers[1][i], resets+"PROTOCOL_ERROR") {
				return // the other server has not noted the stream of a malformed request, and takes its body for one of an idle stream
			}
			if i >= len(answers[1]) || answers[1][i] != want {
				t.Fatalf("%+v\nwant %.1500s\ngot  %.1500s", requests[i], want, answers[1])
			}
		}
	})
}

// sentRequest is a request as a client sends it.
type sentRequest struct {
	fields []hpack.HeaderField
	// data are the lengths of DATA frames; padded: they have padding.
	data   []int
	padded bool
	// trailers follow; nil: none.
	trailers []hpack.HeaderField
	// reset: the client resets the stream instead of ending it. closes: it closes the connection.
	reset, closes bool
}

// chosen are choices by bytes, and the first choice when there are none left.
type chosen []byte

func (c *chosen) of(n int) int {
	if len(*c) == 0 {
		return 0
	}
	one := int((*c)[0]) % n
	*c = (*c)[1:]
	return one
}

func pick[T any](c *chosen, of ...T) T { return of[c.of(len(of))] }

// requestsOf makes up to four requests, so that their bodies fit into the windows that a server gives at the beginning.
func requestsOf(choices []byte) (requests []sentRequest) {
	for c := chosen(choices); len(c) > 0 && len(requests) < 4; {
		requests = append(requests, requestOf(&c))
	}
	return requests
}

var (
	oddFields = []hpack.HeaderField{
		{Name: "x-many", Value: "1"}, {Name: "x-many", Value: "2"}, {Name: "cookie", Value: "a=b"}, {Name: "cookie", Value: "c=d; e=f"}, {Name: "te", Value: "trailers"},
		{Name: "te", Value: "gzip"}, {Name: "X-Upper", Value: "a"}, {Name: "connection", Value: "close"}, {Name: "keep-alive", Value: "1"}, {Name: "transfer-encoding", Value: "chunked"},
		{Name: "upgrade", Value: "websocket"}, {Name: "host", Value: "y"}, {Name: "host", Value: "x"}, {Name: "expect", Value: "100-continue"}, {Name: "expect", Value: "other"},
		{Name: "x-bad", Value: "a\nb"}, {Name: "x-space", Value: " a "}, {Name: "x y", Value: "a"}, {Name: "", Value: "a"}, {Name: "x-empty"}, {Name: ":path", Value: "/again"},
		{Name: ":status", Value: "200"}, {Name: ":protocol", Value: "websocket"}, {Name: ":other", Value: "x"}, {Name: "trailer", Value: "X-After, X-Absent"},
		{Name: "trailer", Value: "Content-Length"}, {Name: "accept-encoding", Value: "gzip"}, {Name: "priority", Value: "u=1"}, {Name: "x-large", Value: strings.Repeat("y", 5000)},
		{Name: "content-type", Value: "a/b"}, {Name: "proxy-connection", Value: "close"}, {Name: "range", Value: "bytes=0-1"}, {Name: "date", Value: "x"}, {Name: "x-é", Value: "a"},
	}
	oddTrailers = []hpack.HeaderField{{Name: "x-after", Value: "yes"}, {Name: "x-other", Value: "a"}, {Name: "content-length", Value: "1"}, {Name: ":path", Value: "/x"},
		{Name: "X-Upper", Value: "a"}, {Name: "x-bad", Value: "a\nb"}, {Name: "connection", Value: "close"}}
)

func requestOf(c *chosen) (r sentRequest) {
	path := pick(c, "/echo", "/", "/size?n=10", "/size?n=16385", "/size?n=70000", "/status?n=200", "/status?n=204", "/status?n=304", "/status?n=500", "/length", "/trailers", "/early",
		"/fields", "/abort", "/unread", "/closed", "/x?y=%20z", "*", "", "//x", "/%zz", "/a b", "http://x/y", "x", "/\x00", "/é", "/../a", "/#f")
	r.fields = []hpack.HeaderField{{Name: ":method", Value: pick(c, "POST", "GET", "HEAD", "PUT", "OPTIONS", "DELETE", "PATCH", "CONNECT", "TRACE", "get", "", "A B", "é")}}
	for _, pseudo := range []hpack.HeaderField{{Name: ":scheme", Value: pick(c, "https", "https", "https", "https", "http", "ftp", "")},
		{Name: ":authority", Value: pick(c, "x", "x", "x", "x:80", "a b", "", "x/y", "u@x", "é", "[::1]", "x:y")}, {Name: ":path", Value: path}} {
		if c.of(20) != 19 {
			r.fields = append(r.fields, pseudo)
		}
	}
	for range max(0, c.of(6)-2) {
		r.fields = append(r.fields, oddFields[c.of(len(oddFields))])
	}
	sum := 0
	for range max(0, c.of(5)-1) {
		r.data = append(r.data, pick(c, 0, 1, 5, 100, 4000))
		sum += r.data[len(r.data)-1]
	}
	r.padded = c.of(4) == 3
	if path == "/echo" && len(r.data) > 0 && c.of(4) == 3 { // other handlers answer before the trailers have come, or afterwards
		for r.trailers = []hpack.HeaderField{}; len(r.trailers) < c.of(3); {
			r.trailers = append(r.trailers, oddTrailers[c.of(len(oddTrailers))])
		}
	}
	// A wrong length is left out: this server resets the stream (RFC 9113, 8.1.1), the other one may let the handler answer.
	length := pick(c, "", strconv.Itoa(sum), "00"+strconv.Itoa(sum), "x", "-1", "99999999999999999999")
	if n, err := strconv.ParseUint(length, 10, 63); length != "" && (err == nil && int(n) == sum || err != nil && sum == 0) {
		r.fields = append(r.fields, hpack.HeaderField{Name: "content-length", Value: length})
	}
	end := c.of(12)
	r.closes = end == 10
	if r.reset = end == 11; r.reset { // for the other server a malformed one has no stream that could be reset
		r.fields = []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "x"}, {Name: ":path", Value: "/echo"}}
	}
	return r
}

// send sends a request. Errors are those of a connection that the server has closed.
func (r sentRequest) send(fr *http2.Framer, id uint32) error {
	encode := func(fields []hpack.HeaderField) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		e.SetMaxDynamicTableSize(0)
		for _, f := range fields {
			_ = e.WriteField(f)
		}
		return b.Bytes()
	}
	bodiless := len(r.data) == 0 && r.trailers == nil
	if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: encode(r.fields), EndHeaders: true, EndStream: bodiless && !r.reset}); err != nil {
		return err
	}
	for i, n := range r.data {
		padding := []byte(nil)
		if r.padded {
			padding = make([]byte, 1+i)
		}
		end := i == len(r.data)-1 && r.trailers == nil && !r.reset
		if err := fr.WriteDataPadded(id, end, bytes.Repeat([]byte{'d'}, n), padding); err != nil {
			return err
		}
	}
	if r.reset {
		return fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	if r.trailers != nil {
		return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: encode(r.trailers), EndHeaders: true, EndStream: true})
	}
	return nil
}

const ends, resets = "the connection ends with ", "reset with "

// answersOf returns what a server answers each request with.
func answersOf(t *testing.T, requests []sentRequest, own bool) (answers []string) {
	client, nc := net.Pipe()
	if err := client.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	s := &http.Server{HTTP2: &http.HTTP2Config{MaxConcurrentStreams: testStreams}, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if own {
			server := newServer(s)
			server.newConn(nc, t.Context(), http.HandlerFunc(play)).serve()
			server.ended()
		} else {
			(&http2.Server{MaxConcurrentStreams: testStreams}).ServeConn(nc, &http2.ServeConnOpts{BaseConfig: s, Handler: http.HandlerFunc(play)})
		}
	}()
	frames := make(chan any, 1000) // as many as there may be
	go readFrames(client, frames)
	defer func() {
		client.Close()
		<-served
	}()
	write := http2.NewFramer(client, nil)
	write.AllowIllegalWrites = true
	_, err := io.WriteString(client, http2.ClientPreface)
	err = errors.Join(err, write.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}), write.WriteWindowUpdate(0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range requests {
		id := uint32(2*i + 1)
		_ = r.send(write, id) // fails if the connection has ended, which the answer says
		if r.reset {
			answers = append(answers, "reset")
			continue
		}
		if r.closes {
			break // the server ends
		}
		answer, more := answerTo(id, frames)
		if answers = append(answers, answer); !more {
			break
		}
	}
	return answers
}

// readFrames sends to frames a copy of each frame of a server that belongs to a stream or ends the connection, and malformed responses.
func readFrames(from io.Reader, frames chan<- any) {
	defer close(frames)
	fr := http2.NewFramer(io.Discard, from)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := fr.ReadFrame()
		if malformed := (http2.StreamError{}); errors.As(err, &malformed) {
			frames <- malformed
			continue
		}
		switch frame := frame.(type) {
		case *http2.DataFrame:
			frames <- dataCopy{frame.StreamID, frame.StreamEnded(), bytes.Clone(frame.Data())}
		case *http2.MetaHeadersFrame, *http2.RSTStreamFrame, *http2.GoAwayFrame:
			frames <- frame
		}
		if err != nil {
			return
		}
	}
}

// dataCopy is a DATA frame with memory of its own.
type dataCopy struct {
	id   uint32
	end  bool
	data []byte
}

// answerTo reads frames until a stream has ended. more: it has ended well. Otherwise the rest of the request may have come afterwards, and may
// have ended the connection.
func answerTo(id uint32, frames <-chan any) (answer string, more bool) {
	var parts []string
	var body []byte
	finish := func(end string) string {
		return fmt.Sprintf("%s, a body of %d bytes %x, %s", strings.Join(parts, ", "), len(body), sha256.Sum256(body), end)
	}
	for frame := range frames {
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			return finish(ends + frame.ErrCode.String()), false
		case http2.StreamError:
			if frame.StreamID == id {
				return finish("malformed"), false
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == id {
				return finish(resets + frame.ErrCode.String()), false
			}
		case dataCopy:
			if frame.id != id {
				continue
			}
			if body = append(body, frame.data...); frame.end {
				return finish("end"), true
			}
		case *http2.MetaHeadersFrame:
			if frame.StreamID != id {
				continue
			}
			status := frame.PseudoValue("status")
			if status == "400" || status == "431" { // their text differs
				return status, false
			}
			var fields []string
			for _, f := range frame.Fields {
				if f.Name == "date" {
					f.Value = "some"
				}
				fields = append(fields, f.Name+": "+f.Value)
			}
			slices.Sort(fields)
			if parts = append(parts, fmt.Sprintf("%q", fields)); frame.StreamEnded() {
				return finish("end"), true
			}
		}
	}
	return finish("the connection is closed"), false
}

// patience is how long a server may take to answer the requests of a connection.
const patience = 20 * time.Second
