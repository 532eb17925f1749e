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

// textSocket sends a text as messages of a WebSocket, with the same messages as upstream's wsstream.Reader, which blocks forever when the handshake
// is rejected.
type textSocket struct {
	q      *request
	h      *Handlers
	ctx    context.Context // ends the text
	cancel context.CancelFunc
	text   io.Reader
}

// serve returns when the text has ended, the client has gone, or the server shuts down.
func (s *textSocket) serve() {
	// Count before the HTTP server releases the connection, so that a shutdown always waits for one of the two.
	s.h.sockets.all.Add(1)
	defer s.h.sockets.all.Done()
	websocket.Server{Handshake: chooseTextProtocol, Handler: s.run}.ServeHTTP(s.q.w, s.q.r)
}

// chooseTextProtocol selects the first of the client's subprotocols that is supported. To name none is valid, too.
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
	// At the end of the text a blocked write must end, too.
	stop := context.AfterFunc(s.ctx, func() { _ = ws.SetDeadline(time.Now().Add(closeTime)) })
	s.send(ws)
	s.cancel()
	stop()
	_ = ws.SetDeadline(time.Now().Add(closeTime))
	_ = ws.Close() // sends a close frame, if the client is still connected
	<-read
}

// textMessage is the maximum of bytes in a message.
const textMessage = 2048

// send sends until the end of the text or an error: the client cannot be told which. It begins with an empty message, which tells the client that
// it is served.
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
