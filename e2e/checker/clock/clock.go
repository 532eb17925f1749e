// Package clock gives single processes a clock that jumps, without a test hook in them and without changing that of the machine.
//
// On Linux, Go programs ask for the time by a function of the vDSO, a page of code that the kernel maps into every process. Start begins a process
// stopped, before its first instruction, and overwrites that function. The new one asks the kernel, and adds an offset, which is stored beside it, to
// the time of day. A jump is a new offset. The monotonic clock (CLOCK_MONOTONIC), which timers use, does not change, as when the clock of a machine
// is set. This only works for programs that ask in this way; Go's do.
//
//	clock.go             Clock
//	vdso_linux_amd64.go  the function, and how it is installed
//	vdso_other.go        other platforms, without such clocks
package clock

import (
	"os"
	"sync"
	"time"
)

// Clock is the clock of a process. Its methods may be called concurrently.
type Clock struct {
	mu     sync.Mutex
	memory *os.File // memory of the process
	offset int64    // address of the offset: nanoseconds in an aligned word, which is written and read atomically
}

// Set makes the clock show the time of the machine plus an offset, of up to 292 years. It fails when the process has ended. Outside of the years 1885
// to 2157, a time.Time no longer keeps the monotonic clock, by which it computes differences that ignore the jumps.
func (c *Clock) Set(offset time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(offset)
}

// Close gives up the control of the clock, which keeps its offset.
func (c *Clock) Close() error { return c.memory.Close() }
