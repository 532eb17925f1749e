package handlers

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// textSocket sends a text as the messages of a WebSocket. They are those of upstream's wsstream.Reader, which waits for
// ever when the handshake is refused.
type textSocket struct {
	q      *request
	h      *Handlers
	ctx    context.Context // ends the text
	cancel context.CancelFunc
	text   io.Reader
}

// serve returns when the text has ended, the client has gone, or the server shuts down.
func (s *textSocket) serve() {
	// Before the HTTP server lets go of the connection, so that a shutdown waits for the one or the other.
	s.h.sockets.all.Add(1)
	defer s.h.sockets.all.Done()
	websocket.Server{Handshake: chooseTextProtocol, Handler: s.run}.ServeHTTP(s.q.w, s.q.r)
}

// chooseTextProtocol takes the first of the client's subprotocols that there is. None is one of them.
func chooseTextProtocol(config *websocket.Config, _ *http.Request) error {
	if len(config.Protocol) == 0 {
		config.Protocol = []string{""}
	}
	known := wsstream.NewDefaultReaderProtocols()
	for _, p := range config.Protocol {
		if _, ok := known[p]; ok {
			config.Protocol = []string{p}
			return nil
		}
	}
	return websocket.ErrBadWebSocketProtocol
}

func (s *textSocket) run(ws *websocket.Conn) {
	s.h.sockets.add(ws)
	defer s.h.sockets.remove(ws)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer s.cancel()
		_, _ = io.Copy(io.Discard, ws)
	}()
	// When the text is over, a write that the client does not take has to end too.
	stop := context.AfterFunc(s.ctx, func() { _ = ws.SetDeadline(time.Now().Add(closeTime)) })
	s.send(ws)
	s.cancel()
	stop()
	_ = ws.SetDeadline(time.Now().Add(closeTime))
	_ = ws.Close() // the client is told, if it is there
	<-read
}

// textMessage is how much of a text is in a message, at most.
const textMessage = 2048

// send sends until an end of the text or an error: nobody is left to tell which. It begins with an empty message, by which
// the client knows that it is served.
func (s *textSocket) send(ws *websocket.Conn) {
	binary := wsstream.NewDefaultReaderProtocols()[ws.Config().Protocol[0]].Binary
	buf := make([]byte, textMessage)
	n, end := 0, error(nil)
	for end == nil {
		var message any = buf[:n]
		if !binary {
			message = base64.StdEncoding.EncodeToString(buf[:n])
		}
		if err := websocket.Message.Send(ws, message); err != nil {
			return
		}
		n, end = io.ReadAtLeast(s.text, buf, 1)
	}
}
