package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Whatever a client sends, the connection ends when the client closes it, no handler remains, and the server's frames are valid.
func FuzzFrames(f *testing.F) {
	request := func(method string, more ...string) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		fields := append([]string{":method", method, ":scheme", "https", ":authority", "x", ":path", "/"}, more...)
		for i := 0; i < len(fields); i += 2 {
			if err := e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
				f.Fatal(err)
			}
		}
		return b.Bytes()
	}
	get, post := request("GET"), request("POST", "content-length", "5", "trailer", "x")
	frame := func(typ http2.FrameType, flags http2.Flags, id uint32, payload []byte) []byte {
		return append(appendHead(nil, len(payload), typ, flags, id), payload...)
	}
	window := binary.BigEndian.AppendUint32(nil, 100)
	for _, seed := range [][][]byte{
		{frame(http2.FrameHeaders, 5, 1, get), frame(http2.FrameHeaders, 5, 3, get), frame(http2.FrameRSTStream, 0, 3, window)},
		{frame(http2.FrameHeaders, 4, 1, post), frame(http2.FrameData, 1, 1, []byte("12345"))},
		{frame(http2.FrameHeaders, 4, 1, post), frame(http2.FrameData, 8, 1, []byte("\x0112345\x00")), frame(http2.FrameHeaders, 5, 1, nil)},
		{frame(http2.FrameHeaders, 1, 1, get[:3]), frame(http2.FrameContinuation, 4, 1, get[3:]), frame(http2.FrameWindowUpdate, 0, 1, window)},
		{frame(http2.FrameSettings, 0, 0, []byte{0, 4, 0, 0, 0, 1}), frame(http2.FrameHeaders, 0x2d, 1, append([]byte{0, 0, 0, 0, 3, 1}, get...)), frame(http2.FrameWindowUpdate, 0, 0, window)},
		{frame(http2.FramePing, 0, 0, make([]byte, 8)), frame(http2.FrameGoAway, 0, 0, make([]byte, 8)), frame(http2.FramePriority, 0, 1, make([]byte, 5))},
	} {
		f.Add(bytes.Join(seed, nil))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		own := newServer(&http.Server{HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 5}, MaxHeaderBytes: 10000})
		client, nc := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			own.newConn(nc, t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(w, r.Body)
				_, _ = w.Write(make([]byte, 100<<10))
			})).serve()
		}()
		read := make(chan struct{})
		go func() {
			defer close(read)
			framer := http2.NewFramer(io.Discard, client)
			for {
				_, err := framer.ReadFrame()
				if illegal := http2.ConnectionError(0); errors.As(err, &illegal) {
					t.Errorf("the server sends what is no frame: %v", err)
				}
				if err != nil {
					return
				}
			}
		}()
		_, _ = io.WriteString(client, http2.ClientPreface)
		_, _ = client.Write(frame(http2.FrameSettings, 0, 0, nil))
		_, _ = client.Write(sent)
		client.Close()
		<-served
		<-read
		own.ended()
	})
}
