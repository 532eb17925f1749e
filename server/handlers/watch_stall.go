package handlers

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// stall ends a watch whose client does not take what it is sent: no frame within WatchStall. It would have a goroutine, what it had
// begun to send, and until it has been sent the state, a seat, for as long as the client likes. (kube-apiserver ends one when the
// events that it cannot pass on have filled a buffer; here there are none, the watch reads them when it can send.) The client may begin
// again where it was, as after every end of a watch.
type stall struct {
	limit time.Duration
	end   func() // ends the watch, and the write in which it is

	begun  bool
	frames atomic.Uint64 // that were sent

	mu    sync.Mutex  // guards what follows
	timer *time.Timer // nil until something is sent
	sends bool        // is begun
	seen  uint64      // frames that were sent when it was looked at
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

// done is called when all that was to be sent is, and before somebody else is waited for.
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

// look ends the watch under mu: done waits for it, so that end never comes after the handler of the watch has returned, when the writer
// may be that of another request.
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
	s.end()
}

// cutWrites ends writes to a client, also one that is under way.
func cutWrites(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // what has no deadlines is no connection
}
