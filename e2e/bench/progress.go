package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints, beside the results, the present step of a command. Some steps take minutes without a measurement, and a command that is ended
// there would otherwise end without a message.
type progress struct {
	out io.Writer

	mu    sync.Mutex
	what  string
	since time.Time
}

// at prints the step that begins.
func (p *progress) at(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.since = what, time.Now()
	fmt.Fprintf(p.out, "bench: %s\n", what)
}

// tellEnd prints at once why ctx ended, unless the command returns before. The sender of the signal may not wait for the error: `go run` does not.
func (p *progress) tellEnd(ctx context.Context) (returns func() bool) {
	return context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		fmt.Fprintf(p.out, "bench: ended by %v, %s after it began with: %s\n", context.Cause(ctx), short(time.Since(p.since)), p.what)
	})
}
