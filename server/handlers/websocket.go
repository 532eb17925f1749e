package handlers

import (
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/net/websocket"

	"github.com/rowlock/rowlock/server/codec"
)

// closeTime is how long a client that takes nothing may hold up the end of its WebSocket.
const closeTime = 5 * time.Second

// serveSocket serves the watch as the messages of a WebSocket (RFC 6455): text for what is text, else binary. A request
// without an Origin is refused with 403, as kube-apiserver does. cancel ends the watch.
//
// What the client sends is thrown away; pings are answered meanwhile. Its end, or a close frame, ends the watch.
func (w *watchStream) serveSocket(cancel context.CancelFunc) {
	// Before the HTTP server lets go of the connection, so that a shutdown waits for the one or the other.
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
		// When the watch is over, a write that the client does not take has to end too.
		stop := context.AfterFunc(w.q.ctx, func() { _ = ws.SetDeadline(time.Now().Add(closeTime)) })
		w.to = &socketFrames{ws: ws}
		if w.begin() {
			w.run()
		}
		cancel()
		stop()
		_ = ws.SetDeadline(time.Now().Add(closeTime))
		_ = ws.Close() // the client is told, if it is there
		<-read
	}).ServeHTTP(w.q.w, w.q.r)
}

// sockets are the WebSockets that are open: the HTTP server knows nothing of them any more.
type sockets struct {
	all sync.WaitGroup

	mu   sync.Mutex // guards what follows
	open map[*websocket.Conn]struct{}
	over bool // no client has any more time
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

// Drain waits for the WebSockets to end, as they do by themselves once Config.Draining is closed, and cuts those that are
// still open when ctx ends. No new request may come in.
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
