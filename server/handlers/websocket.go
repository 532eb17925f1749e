package handlers

import (
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/net/websocket"

	"github.com/rowlock/rowlock/server/codec"
)

// closeTime bounds how long a client that reads nothing may delay the end of its WebSocket.
const closeTime = 5 * time.Second

// serveSocket sends the watch as messages of a WebSocket (RFC 6455): text messages for text formats, otherwise binary ones. A request without an
// Origin is rejected with 403, as in kube-apiserver. cancel ends the watch.
//
// Data from the client is discarded; pings are answered meanwhile. The end of that data, or a close frame, ends the watch.
func (w *watchStream) serveSocket(cancel context.CancelFunc) {
	// Count before the HTTP server releases the connection, so that a shutdown always waits for one of the two.
	w.h.sockets.all.Add(1)
	defer w.h.sockets.all.Done()
	websocket.Handler(func(ws *websocket.Conn) {
		w.h.sockets.add(ws)
		defer w.h.sockets.remove(ws)
		ws.PayloadType = websocket.BinaryFrame
		if w.events.Media() == codec.JSON {
			ws.PayloadType = websocket.TextFrame
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			defer cancel()
			_, _ = io.Copy(io.Discard, ws)
		}()
		// At the end of the watch a blocked write must end, too.
		stop := context.AfterFunc(w.q.ctx, func() { _ = ws.SetDeadline(time.Now().Add(closeTime)) })
		w.to = &socketFrames{ws: ws}
		if w.begin() {
			w.run()
		}
		cancel()
		stop()
		_ = ws.SetDeadline(time.Now().Add(closeTime))
		_ = ws.Close() // sends a close frame, if the client is still connected
		<-read
	}).ServeHTTP(w.q.w, w.q.r)
}

// sockets are the open WebSockets, which the HTTP server no longer tracks.
type sockets struct {
	all sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	open map[*websocket.Conn]struct{}
	over bool // all connections are to be cut
}

func (s *sockets) add(ws *websocket.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*websocket.Conn]struct{}{}
	}
	s.open[ws] = struct{}{}
	if s.over {
		_ = ws.SetDeadline(time.Now())
	}
}

func (s *sockets) remove(ws *websocket.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, ws)
}

// Drain waits for the WebSockets to end, as they do once Config.Draining is closed, and cuts those that are still open when ctx ends. No new
// requests may arrive.
func (h *Handlers) Drain(ctx context.Context) {
	stop := context.AfterFunc(ctx, h.sockets.cut)
	defer stop()
	h.sockets.all.Wait()
}

func (s *sockets) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for ws := range s.open {
		_ = ws.SetDeadline(time.Now())
	}
}
