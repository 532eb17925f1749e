package h2

import "sync"

// workers are goroutines that run handlers. A few of them wait for the next request: their stacks have grown already, which
// costs a new goroutine more than anything else. None waits once the last connection has ended.
type workers struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	kept bool // there are connections
	idle []*worker
}

type worker struct{ next chan task }

// task is what a worker does: a handler, or steps of streams.
type task interface{ run() }

// mostIdle is how many wait.
const mostIdle = 8

// run has a task done. It does not block.
func (ws *workers) run(t task) {
	ws.mu.Lock()
	if n := len(ws.idle); n > 0 {
		w := ws.idle[n-1]
		ws.idle = ws.idle[:n-1]
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
	return true
}

// keep says whether anybody is to wait; those who do end otherwise.
func (ws *workers) keep(kept bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.kept = kept
	if kept {
		return
	}
	for _, w := range ws.idle {
		w.next <- nil // has room for one
	}
	ws.idle = nil
}
