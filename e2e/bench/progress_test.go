package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestProgressTellsTheEnd checks that a command that is ended prints its present step, before anything else ends.
func TestProgressTellsTheEnd(t *testing.T) {
	out := &told{lines: make(chan string, 2)}
	p := &progress{out: out}
	ctx, end := context.WithCancelCause(context.Background())
	p.tellEnd(ctx)
	p.at("installing 3 definitions")
	if line := out.next(t); line != "bench: installing 3 definitions\n" {
		t.Errorf("begins with %q", line)
	}
	end(errors.New("a signal"))
	if line := out.next(t); !strings.HasPrefix(line, "bench: ended by a signal, ") || !strings.HasSuffix(line, "it began with: installing 3 definitions\n") {
		t.Errorf("ends with %q", line)
	}
}

// TestProgressOfWhatReturned checks that a command that has returned prints nothing more.
func TestProgressOfWhatReturned(t *testing.T) {
	out := &told{}
	ctx, end := context.WithCancel(context.Background())
	if returns := (&progress{out: out}).tellEnd(ctx); !returns() {
		t.Error("it has told already")
	}
	end()
	if out.String() != "" {
		t.Errorf("says %q", out)
	}
}

// told keeps its input, and passes it on.
type told struct {
	mu    sync.Mutex
	all   bytes.Buffer
	lines chan string
}

func (w *told) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lines != nil {
		w.lines <- string(line)
	}
	return w.all.Write(line)
}

func (w *told) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func (w *told) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-w.lines:
		return line
	case <-time.After(time.Minute):
		t.Fatal("nothing is told")
		return ""
	}
}
