package h2

import (
	"sync"
	"time"
)

// workers are goroutines that run handlers. Some of them wait for the next request: their stacks have grown already, which
// costs a new goroutine more than anything else. None waits once the last connection has ended, and few when there is nothing to do.
type workers struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	kept bool // there are connections
	idle []*worker
	// unused is how many of those that wait, from the first on, have not been used since trim looked last.
	unused int
	timer  *time.Timer // calls trim; nil: few wait
}

type worker struct{ next chan task }

// task is what a worker does: a handler, or steps of streams.
type task interface{ run() }

const (
	// mostIdle is how many wait: as many as clients of a busy server have requests under way.
	mostIdle = 64
	// fewIdle is how many wait for as long as there are connections.
	fewIdle = 8
)

// idleTime is for how long the others are not needed before they end.
var idleTime = 2 * time.Second

// run has a task done. It does not block.
func (ws *workers) run(t task) {
	ws.mu.Lock()
	if n := len(ws.idle); n > 0 {
		w := ws.idle[n-1]
		ws.idle = ws.idle[:n-1]
		ws.unused = min(ws.unused, n-1)
		ws.mu.Unlock()
		w.next <- t
		return
	}
	ws.mu.Unlock()
	w := &worker{next: make(chan task, 1)}
	ws.all.Go(func() { w.work(ws, t) })
}

func (w *worker) work(ws *workers, t task) {
	for t != nil {
		t.run()
		t = nil
		if !ws.wait(w) {
			return
		}
		t = <-w.next
	}
}

// wait reports whether w is to wait.
func (ws *workers) wait(w *worker) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !ws.kept || len(ws.idle) >= mostIdle {
		return false
	}
	ws.idle = append(ws.idle, w)
	if len(ws.idle) > fewIdle && ws.timer == nil {
		ws.unused = 0
		ws.timer = time.AfterFunc(idleTime, ws.trim)
	}
	return true
}

// trim ends who was not needed for a while. The last to wait is the first to be used, so these are the first of them.
func (ws *workers) trim() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := max(0, min(ws.unused, len(ws.idle)-fewIdle))
	ws.end(ws.idle[:n])
	ws.idle = append([]*worker(nil), ws.idle[n:]...)
	ws.unused = len(ws.idle)
	if ws.timer = nil; len(ws.idle) > fewIdle {
		ws.timer = time.AfterFunc(idleTime, ws.trim)
	}
}

// end tells workers that wait that there is nothing to come.
func (ws *workers) end(idle []*worker) {
	for _, w := range idle {
		w.next <- nil // has room for one
	}
}

// keep says whether anybody is to wait; those who do end otherwise.
func (ws *workers) keep(kept bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.kept = kept; kept {
		return
	}
	ws.end(ws.idle)
	ws.idle, ws.unused = nil, 0
	if ws.timer != nil {
		ws.timer.Stop()
		ws.timer = nil
	}
}
