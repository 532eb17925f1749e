package handlers

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"sync"

	"golang.org/x/net/websocket"

	"github.com/rowlock/rowlock/server/cork"
)

// frames receives the frames of a watch.
type frames interface {
	// writer returns a writer for the bytes of a frame.
	writer() io.Writer
	// end marks the end of a frame.
	end() error
	// flush sends the buffered frames, and reports whether there were any.
	flush() bool
}

// httpFrames buffers frames, so that those of a batch leave in one write.
type httpFrames struct {
	w    http.ResponseWriter
	conn *cork.Conn // corked from the first frame of a batch to its end
	// compress makes each batch a gzip member of its own, so that the client can decompress all of it at once, and an idle watch holds no
	// compressor.
	compress bool
	gzip     *packer
	// direct is set when the ResponseWriter buffers frames itself and they are not compressed.
	direct, wrote bool
	// out is nil while there is nothing to send, because an idle watch must cost nothing.
	out *bufio.Writer
}

// frameBuffers are shared by all watches: each is held only from the first frame of a batch to its end.
var frameBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

func (f *httpFrames) writer() io.Writer {
	if f.direct {
		f.wrote = true
		return f.w
	}
	if f.out == nil {
		f.conn.Cork()
		f.out = frameBuffers.Get().(*bufio.Writer)
		f.out.Reset(f.w)
		if f.compress {
			f.gzip = newPacker(f.w)
			f.out.Reset(f.gzip)
		}
	}
	return f.out
}

func (f *httpFrames) end() error { return nil }

func (f *httpFrames) flush() bool {
	gathered := f.out != nil || f.wrote
	f.wrote = false
	if f.out != nil {
		_ = f.out.Flush() // fails only if the client is gone: its context ends the stream
		if f.gzip != nil {
			_ = f.gzip.Flush() // or a reader would wait for the next member before it returns this one
			_ = f.gzip.Close()
			f.gzip = nil
		}
		f.out.Reset(nil)
		frameBuffers.Put(f.out)
		f.out = nil
	}
	if to, ok := f.w.(http.Flusher); ok {
		to.Flush()
	}
	f.conn.Uncork()
	return gathered
}

// socketFrames sends each frame as one message of a WebSocket.
type socketFrames struct {
	ws      *websocket.Conn
	message bytes.Buffer
	sent    bool
}

func (f *socketFrames) writer() io.Writer { return &f.message }

func (f *socketFrames) end() error {
	_, err := f.ws.Write(f.message.Bytes())
	f.message.Reset()
	f.sent = true
	return err
}

func (f *socketFrames) flush() bool {
	sent := f.sent
	f.sent, f.message = false, bytes.Buffer{} // an idle watch holds no memory
	return sent
}
