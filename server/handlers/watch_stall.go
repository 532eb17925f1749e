package handlers

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// stall ends a watch whose client takes no frame within WatchStall. Otherwise the client could hold a goroutine, the unsent frames and, until the
// state has been sent, a seat for as long as it likes. (kube-apiserver ends a watch when its buffer of events overflows; here there is no such
// buffer: the watch reads events when it can send.) The client may resume from its last resourceVersion, as after every end of a watch.
type stall struct {
	limit time.Duration
	end   func() // ends the watch, and a blocked write
	count func() // counts the end

	begun  bool
	frames atomic.Uint64 // number of frames sent

	mu    sync.Mutex  // guards the fields below
	timer *time.Timer // nil until something is sent
	sends bool        // as begun, for look
	seen  uint64      // frames at the last look
}

// begin is called before frames are sent, and changes nothing until done.
func (s *stall) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends, s.seen = true, s.frames.Load()
	if s.timer == nil {
		s.timer = time.AfterFunc(s.limit, s.look)
	} else {
		s.timer.Reset(s.limit)
	}
}

// done is called when everything has been sent, and before waiting for anything other than the client.
func (s *stall) done() {
	if !s.begun {
		return
	}
	s.begun = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends = false
	s.timer.Stop()
}

// look ends the watch while it holds mu: done waits for it, so that end is never called after the watch's handler has returned, when the writer may
// belong to another request.
func (s *stall) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sends {
		return
	}
	if n := s.frames.Load(); n != s.seen {
		s.seen = n
		s.timer.Reset(s.limit)
		return
	}
	s.count()
	s.end()
}

// cutWrites aborts current and future writes to a client.
func cutWrites(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // a writer without deadlines is no connection
}
