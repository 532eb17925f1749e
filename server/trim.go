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

// historyTime is for how long without a request the store keeps in memory what watches that are open may need, when one of
// them is slow or its connection breaks.
const historyTime = 5 * time.Minute

const (
	// trimWorth is how many bytes have to be allocated between two collections of the garbage that the trimmer asks for:
	// a request now and then is not to cost one each.
	trimWorth = 8 << 20
	// defragmentStep is how many bytes are moved before the memory they were in is given back.
	defragmentStep = 32 << 20
)

// trimmer gives the memory that a burst of requests took back to the system once it is over. The runtime would do so in
// its own time, minutes later. It costs nothing while the server is idle: no timer runs then.
type trimmer struct {
	requests   atomic.Int64
	wake       chan struct{}
	kept       bool                                          // the last trim left history in memory
	underWay   func() int                                    // requests that have not been answered, watches apart
	watches    func() int                                    // that clients have open
	defragment func(forget bool, moved func(bytes int) bool) // Config.DefragmentHeap, or nil
	rest       func() bool                                   // Server.rest, or nil
	allocated  uint64                                        // bytes, until the last trim
}

// newTrimmer returns a trimmer that has the start of the process to look back at.
func newTrimmer(underWay, watches func() int, defragment func(forget bool, moved func(bytes int) bool), rest func() bool) *trimmer {
	t := &trimmer{wake: make(chan struct{}, 1), underWay: underWay, watches: watches, defragment: defragment, rest: rest}
	t.wake <- struct{}{}
	return t
}

// rest drops what can be made again, and reports whether there was anything.
func (s *Server) rest() bool {
	document := s.openapi.Rest()
	return s.Rest != nil && s.Rest() || document
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
		var later <-chan time.Time
		if t.kept {
			later = time.After(historyTime)
		}
		select {
		case <-t.wake:
		case <-later:
			t.trim(true)
			continue
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
		t.trim(t.watches() == 0)
		select {
		case <-t.wake: // of a request that was counted above
		default:
		}
	}
}

// trim gives back what is not needed: garbage, the memory around it, and code that has run; with forget, what the store has in
// memory for watches that are behind, too.
func (t *trimmer) trim(forget bool) {
	dropped := t.rest != nil && t.rest()
	if dropped || allocated() >= t.allocated+trimWorth || (forget && t.kept) {
		if t.defragment != nil {
			t.moveTogether(forget)
			t.kept = !forget
		}
		runtime.GC() // empties the pools, whose contents the next collection finds
		debug.FreeOSMemory()
		t.allocated = allocated()
	}
	dropCodePages()
}

// moveTogether lets the store move what it keeps together, and gives back the places it was in before there are many. It
// ends when there is a request.
func (t *trimmer) moveTogether(forget bool) {
	seen, bytes := t.requests.Load(), 0
	t.defragment(forget, func(moved int) bool {
		if bytes += moved; bytes >= defragmentStep {
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
