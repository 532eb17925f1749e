package server

import (
	"context"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// quietTime is how long the server must be without requests before memory is returned to the system.
const quietTime = 2 * time.Second

// historyTime is how long without a request the store keeps history in memory for open watches, which need it when they are slow or reconnect.
const historyTime = 5 * time.Minute

const (
	// trimWorth is how many bytes must be allocated between two garbage collections by the trimmer, so that sparse requests do not cost one each.
	trimWorth = 8 << 20
	// defragmentStep is how many bytes are moved before the memory they were in is returned.
	defragmentStep = 32 << 20
)

// trimmer returns the memory of a burst of requests to the system once the burst is over. The runtime would do so minutes later. While the server
// is idle, the trimmer runs no timer.
type trimmer struct {
	requests   atomic.Int64
	wake       chan struct{}
	kept       bool                                          // the last trim left history in memory
	underWay   func() int                                    // requests in flight, watches excepted
	watches    func() int                                    // open watches
	defragment func(forget bool, moved func(bytes int) bool) // Config.DefragmentHeap, or nil
	rest       func() bool                                   // Server.rest, or nil
	allocated  uint64                                        // bytes allocated until the last trim
}

// newTrimmer returns a trimmer that first trims after the start of the process.
func newTrimmer(underWay, watches func() int, defragment func(forget bool, moved func(bytes int) bool), rest func() bool) *trimmer {
	t := &trimmer{wake: make(chan struct{}, 1), underWay: underWay, watches: watches, defragment: defragment, rest: rest}
	t.wake <- struct{}{}
	return t
}

// rest drops what can be rebuilt, and reports whether there was anything.
func (s *Server) rest() bool {
	s.services.Forget()
	document := s.openapi.Rest()
	return s.Rest != nil && s.Rest() || document
}

// monitors reports whether requests for a path come at regular intervals, from probes and from Prometheus. They need
// little memory, and a server that gets no others is idle.
func monitors(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first == "metrics" || slices.Contains(healthPaths, first)
}

// busy notes a request.
func (t *trimmer) busy() {
	t.requests.Add(1)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run trims until ctx ends.
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
		// A long list in flight keeps objects from being moved.
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
		case <-t.wake: // for a request counted above
		default:
		}
	}
}

// trim returns garbage, the memory around it, and pages of code; with forget, also the store's history for watches that lag behind.
func (t *trimmer) trim(forget bool) {
	dropped := t.rest != nil && t.rest()
	if dropped || allocated() >= t.allocated+trimWorth || (forget && t.kept) {
		if t.defragment != nil {
			t.moveTogether(forget)
			t.kept = !forget
		}
		runtime.GC() // empties the pools, so that the next collection frees their contents
		debug.FreeOSMemory()
		t.allocated = allocated()
	}
	dropCodePages()
}

// moveTogether lets the store compact its memory, and returns the vacated memory step by step. It stops when a request arrives.
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

// allocated returns how many bytes the process has allocated since its start.
func allocated() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}
