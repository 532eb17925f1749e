package main

import (
	"context"
	"io"
)

const (
	// spoolChunk and spoolChunks bound the output that is not read yet: 16 MiB.
	spoolChunk, spoolChunks = 64 << 10, 256
)

// spool is an output whose reader may stall, as a pager does. It buffers some output; a write beyond that waits for the reader until a
// context ends. It belongs to one goroutine; another one, which it owns, writes the buffered output.
type spool struct {
	ctx    context.Context //nolint:containedctx // an io.Writer has none
	filled []byte
	chunks chan []byte
	done   chan struct{} // closed when the goroutine has ended
	err    error         // its error, to be read after that
}

func newSpool(ctx context.Context, to io.Writer) *spool {
	s := &spool{ctx: ctx, chunks: make(chan []byte, spoolChunks), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for chunk := range s.chunks {
			if _, s.err = to.Write(chunk); s.err != nil {
				return
			}
		}
	}()
	return s
}

// Write implements io.Writer. Errors: those of the output, and of the context.
func (s *spool) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+spoolChunk-len(s.filled))]
		s.filled = append(s.filled, part...)
		n += len(part)
		if len(s.filled) == spoolChunk {
			if err := s.hand(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// hand passes the current chunk to the goroutine.
func (s *spool) hand() error {
	if len(s.filled) == 0 {
		return nil
	}
	select {
	case s.chunks <- s.filled:
		s.filled = nil
		return nil
	case <-s.done:
		return s.err
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// unhurried makes Write wait for the reader until another context ends.
func (s *spool) unhurried(ctx context.Context) { s.ctx = ctx }

// drain waits until everything is written, or ctx ends. There must be no write after it.
func (s *spool) drain(ctx context.Context) error {
	s.unhurried(ctx)
	err := s.hand()
	close(s.chunks)
	if err != nil {
		return err
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err() // the process ends, and its goroutine with it
	}
}
