package h2

import (
	"sync"
	"time"
)

// workers are goroutines that run handlers. Idle ones are reused: their stacks have grown already, which is the largest cost of a new goroutine.
// None stay idle after the last connection has ended, and few without requests.
type workers struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	kept bool // there are connections
	idle []*worker
	// unused is how many idle workers, from the first on, have not been used since the last trim.
	unused int
	timer  *time.Timer // calls trim; nil: few workers are idle
}

type worker struct{ next chan task }

// task is the work of a worker: a handler, or steps of streams.
type task interface{ run() }

const (
	// mostIdle bounds the idle workers: it is about the number of concurrent requests on a busy server.
	mostIdle = 64
	// fewIdle is how many idle workers are kept while there are connections.
	fewIdle = 8
)

// idleTime is how long the others stay idle before they end.
var idleTime = 2 * time.Second

// run runs a task on a worker. It does not block.
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

// wait reports whether w becomes idle.
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

// trim ends workers that were idle for a while. The last to become idle is reused first, so these are the first in the list.
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

// end ends idle workers.
func (ws *workers) end(idle []*worker) {
	for _, w := range idle {
		w.next <- nil // the channel has room for one
	}
}

// keep says whether idle workers are kept; if not, they end.
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
