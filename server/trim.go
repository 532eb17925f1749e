package server

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// quietTime is how long nothing was asked of the server when it gives memory back to the system.
const quietTime = 2 * time.Second

// trimmer gives the memory that a burst of requests took back to the system once it is over. The runtime would do so in
// its own time, minutes later. It costs nothing while the server is idle: no timer runs then.
type trimmer struct {
	requests atomic.Int64
	wake     chan struct{}
}

func newTrimmer() *trimmer { return &trimmer{wake: make(chan struct{}, 1)} }

// busy notes a request.
func (t *trimmer) busy() {
	t.requests.Add(1)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run works until ctx ends.
func (t *trimmer) run(ctx context.Context) {
	for {
		select {
		case <-t.wake:
		case <-ctx.Done():
			return
		}
		for seen := int64(-1); seen != t.requests.Load(); {
			seen = t.requests.Load()
			select {
			case <-time.After(quietTime):
			case <-ctx.Done():
				return
			}
		}
		debug.FreeOSMemory()
		select {
		case <-t.wake: // of a request that was counted above
		default:
		}
	}
}
