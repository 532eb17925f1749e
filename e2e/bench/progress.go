package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// progress says, beside the results, what a command is at: some steps take minutes in which nothing is measured, and one that is ended
// there would otherwise end without a word.
type progress struct {
	out io.Writer

	mu    sync.Mutex
	what  string
	since time.Time
}

// at says what is done from here on.
func (p *progress) at(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.since = what, time.Now()
	fmt.Fprintf(p.out, "bench: %s\n", what)
}

// tellEnd says by what ctx ended, at once, unless the command returns before. Who sent the signal may not wait for the error: `go run` does not.
func (p *progress) tellEnd(ctx context.Context) (returns func() bool) {
	return context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		fmt.Fprintf(p.out, "bench: ended by %v, %s after it began with: %s\n", context.Cause(ctx), short(time.Since(p.since)), p.what)
	})
}
