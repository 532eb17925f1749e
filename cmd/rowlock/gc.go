package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// comfortableMemory is what the process may use, in bytes, before memory is worth time. The text of the program,
	// which the operating system shares and drops at will, is not counted.
	comfortableMemory = 160 << 20
	// memoryStep is by how much the limit moves at least: moving it stops the world for a moment.
	memoryStep = 8 << 20
	// gcPercent is how much garbage may gather, in percent of what is alive, where the limit allows it. While little is
	// alive, much garbage is little memory, and collecting it rarely saves time.
	gcPercent = 200
)

// tuneGC sets the garbage collector for as long as the process lives, unless the environment says how it is to be set.
// A limit keeps a small store small, also after a burst: what is over it goes back to the operating system at once. It
// follows what is alive, since a store that outgrew a fixed limit would do nothing but collect garbage. It is looked at
// after each collection, so an idle process does nothing.
func tuneGC() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := memoryLimit(0)
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(limit)
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	afterEachGC(func() {
		metrics.Read(sample)
		if wanted := memoryLimit(int64(sample[0].Value.Uint64())); wanted != limit {
			limit = wanted
			debug.SetMemoryLimit(limit)
		}
	})
}

// memoryLimit is how many bytes the Go runtime may use when so many are alive: half as much again, and what stacks,
// fragments and the collector itself need.
func memoryLimit(live int64) int64 {
	return max(comfortableMemory, (live+live/2+3*memoryStep)/memoryStep*memoryStep)
}

// afterEachGC calls f after every collection, on the goroutine that runs cleanups: what nothing refers to is found by
// the next one.
func afterEachGC(f func()) {
	type sentinel struct{ _ [16]byte } // not so small that it shares a block of memory with others
	runtime.AddCleanup(new(sentinel), func(f func()) {
		f()
		afterEachGC(f)
	}, f)
}
