package server

import (
	"context"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"sync/atomic"
	"time"
)

// quietTime is how long nothing was asked of the server when it gives memory back to the system.
const quietTime = 2 * time.Second

const (
	// trimWorth is how many bytes have to be allocated between two collections of the garbage that the trimmer asks for:
	// a request now and then is not to cost one each.
	trimWorth = 8 << 20
	// compactStep is how many bytes are moved before the memory they were in is given back.
	compactStep = 32 << 20
)

// trimmer gives the memory that a burst of requests took back to the system once it is over. The runtime would do so in
// its own time, minutes later. It costs nothing while the server is idle: no timer runs then.
type trimmer struct {
	requests  atomic.Int64
	wake      chan struct{}
	underWay  func() int                       // requests that have not been answered, watches apart
	compact   func(moved func(bytes int) bool) // Config.Compact, or nil
	allocated uint64                           // bytes, until the last trim
}

// newTrimmer returns a trimmer that has the start of the process to look back at.
func newTrimmer(underWay func() int, compact func(moved func(bytes int) bool)) *trimmer {
	t := &trimmer{wake: make(chan struct{}, 1), underWay: underWay, compact: compact}
	t.wake <- struct{}{}
	return t
}

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
		// A long list that is under way holds the objects where they are.
		for seen := int64(-1); seen != t.requests.Load() || t.underWay() > 0; {
			seen = t.requests.Load()
			select {
			case <-time.After(quietTime):
			case <-ctx.Done():
				return
			}
		}
		t.trim()
		select {
		case <-t.wake: // of a request that was counted above
		default:
		}
	}
}

// trim gives back what nobody needs: garbage, the memory around it, and code that has run.
func (t *trimmer) trim() {
	if allocated() >= t.allocated+trimWorth {
		if t.compact != nil {
			t.moveTogether()
		}
		runtime.GC() // empties the pools, whose contents the next collection finds
		debug.FreeOSMemory()
		t.allocated = allocated()
	}
	dropCode()
}

// moveTogether lets the store move what it keeps together, and gives back the places it was in before there are many. It
// ends when there is a request.
func (t *trimmer) moveTogether() {
	seen, bytes := t.requests.Load(), 0
	t.compact(func(moved int) bool {
		if bytes += moved; bytes >= compactStep {
			bytes = 0
			debug.FreeOSMemory()
		}
		return t.requests.Load() == seen
	})
}

// allocated is how many bytes the process has allocated since it was started.
func allocated() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}
