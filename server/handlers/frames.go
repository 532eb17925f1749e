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

// frames is where the frames of a watch go.
type frames interface {
	// writer takes the bytes of a frame.
	writer() io.Writer
	// end says that the frame is whole.
	end() error
	// flush sends what was gathered, and reports whether there was anything.
	flush() bool
}

// httpFrames gathers frames, so that what is ready goes out in one write.
type httpFrames struct {
	w    http.ResponseWriter
	conn *cork.Conn // is corked from the first frame of a batch to its end
	// compress: what goes out in one write is a gzip member of its own, so that a client has all of it at once, and a watch
	// that is idle holds no compressor.
	compress bool
	gzip     *packer
	// direct: what answers gathers frames itself, and nothing is to be done to them before.
	direct, wrote bool
	// out is nil while there is nothing to send, because an idle watch is to cost nothing.
	out *bufio.Writer
}

// frameBuffers are shared by all watches: one is held only from the first frame of a batch to its end.
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
		_ = f.out.Flush() // the client is gone: the context ends the stream
		if f.gzip != nil {
			_ = f.gzip.Flush() // or a reader would wait for the next member before it lets go of this one
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
