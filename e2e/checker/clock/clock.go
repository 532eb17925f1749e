// Package clock gives single processes a clock that jumps, without a seam in them and without touching that of the machine.
//
// On Linux, Go programs ask for the time by a function of the vDSO, a page of code that the kernel maps into every process. Start begins a process
// stopped, before its first instruction, and writes another function over that one: it asks the kernel, and adds an offset that is kept beside
// it to what is the time of day. A jump is a new offset. The clock that only goes forward (CLOCK_MONOTONIC), by which timers go, is what it was, as when the clock
// of a machine is set. Only programs that ask in this way are fooled: Go's do.
//
//	clock.go             what it is
//	vdso_linux_amd64.go  the function, and how it gets there
//	vdso_other.go        that there is none elsewhere
package clock

import (
	"os"
	"sync"
	"time"
)

// Clock is the clock of a process. Its methods may be called concurrently.
type Clock struct {
	mu     sync.Mutex
	memory *os.File // of the process
	offset int64    // where the offset is: nanoseconds in an aligned word, which is written and read at once
}

// Set has the clock show the time of the machine plus an offset, of up to 292 years. It fails when the process has ended. A
// time.Time knows only between 1885 and 2157 by how much it differs from another whatever the clock did.
func (c *Clock) Set(offset time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(offset)
}

// Close ends the control of the clock, which goes on as it is.
func (c *Clock) Close() error { return c.memory.Close() }
