package h2

import (
	"sync"
	"testing"
	"time"
)

type taskFunc func()

func (f taskFunc) run() { f() }

// Workers become idle after their tasks, as many as ran at once; after a while only a few remain, and none without connections.
func TestWorkersWait(t *testing.T) {
	before := idleTime
	t.Cleanup(func() { idleTime = before })
	var ws workers
	ws.keep(true)
	idle := func() int {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		return len(ws.idle)
	}
	until := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); idle() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d wait, want %d", idle(), n)
			}
		}
	}
	atOnce := func(n int) {
		var under, done sync.WaitGroup
		under.Add(n)
		done.Add(n)
		for range n {
			ws.run(taskFunc(func() {
				defer done.Done()
				under.Done()
				under.Wait() // for the others
			}))
		}
		done.Wait()
	}
	idleTime = time.Hour
	atOnce(mostIdle + 10)
	until(mostIdle)
	atOnce(mostIdle)
	until(mostIdle)
	ws.mu.Lock()
	if ws.timer == nil || !ws.timer.Stop() {
		t.Error("nobody looks for those who are not needed")
	}
	ws.mu.Unlock()
	ws.trim() // all of them were used
	if n := idle(); n != mostIdle {
		t.Errorf("%d wait, and %d were needed", n, mostIdle)
	}
	const needed = fewIdle + 12
	atOnce(needed)
	until(mostIdle)
	ws.trim()
	until(needed)
	ws.mu.Lock()
	idleTime = 20 * time.Millisecond
	ws.mu.Unlock()
	ws.trim()
	until(fewIdle)
	ws.keep(false)
	ws.all.Wait()
	if n := idle(); n != 0 {
		t.Errorf("%d wait for no connection", n)
	}
}
