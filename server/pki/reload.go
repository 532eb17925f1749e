package pki

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// reloadInterval is the minimal interval between two checks of the files. Nothing watches them, so that an idle server
// does nothing; they are checked when the value is needed.
const reloadInterval = time.Second

// reloadPatience is how long the caller that begins a check waits for it: usually it gets what a changed file says now. Others never wait, because a
// file system that hangs must not keep connections from being accepted.
const reloadPatience = time.Second

// reloading is a value read from files that another process may replace.
type reloading[T any] struct {
	reloadOptions
	paths []string
	parse func(contents [][]byte) (T, error)

	patience time.Duration

	mu      sync.Mutex   // held during a check
	checked atomic.Int64 // Unix nanoseconds
	stamps  []fs.FileInfo
	current atomic.Pointer[loaded[T]]
}

// loaded is one state of a reloading value, identified by its address.
type loaded[T any] struct{ value T }

type reloadOptions struct {
	now    func() time.Time
	logger *slog.Logger
}

func (p *PKI) reloadOptions() reloadOptions {
	return reloadOptions{now: p.opts.Now, logger: p.opts.Logger}
}

// newReloading reads the files for the first time, which must succeed.
func newReloading[T any](o reloadOptions, parse func([][]byte) (T, error), paths ...string) (*reloading[T], error) {
	r := &reloading[T]{reloadOptions: o, paths: paths, parse: parse, patience: reloadPatience}
	r.checked.Store(o.now().UnixNano())
	stamps, err := r.stat()
	if err != nil {
		return nil, err
	}
	r.stamps = stamps
	return r, r.read()
}

// get returns the value, read again if a file has changed. The last good value stays if the files cannot be read, do not match because only one of
// two has been replaced yet, or take long to read.
func (r *reloading[T]) get() *loaded[T] {
	now := r.now().UnixNano()
	if r.isFresh(now) || !r.mu.TryLock() {
		return r.current.Load()
	}
	if r.isFresh(now) {
		r.mu.Unlock()
		return r.current.Load()
	}
	r.checked.Store(now)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.mu.Unlock()
		r.check()
	}()
	patience := time.NewTimer(r.patience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
	return r.current.Load()
}

func (r *reloading[T]) isFresh(now int64) bool {
	last := r.checked.Load()
	return now-last < int64(reloadInterval) && now >= last
}

// check reads changed files. The caller holds mu.
func (r *reloading[T]) check() {
	stamps, err := r.stat()
	if err == nil && r.unchanged(stamps) {
		return
	}
	// The stamps are taken before reading: a change in between is then noticed by the next check.
	r.stamps = stamps
	if err == nil {
		err = r.read()
	}
	if err != nil {
		r.logger.Error("changed files could not be read, what they said before stays in use", "error", err)
		return
	}
	r.logger.Info("read changed files", "files", r.paths)
}

func (r *reloading[T]) read() error {
	contents := make([][]byte, len(r.paths))
	for i, path := range r.paths {
		var err error
		if contents[i], err = os.ReadFile(path); err != nil {
			r.stamps = nil // what kept it from being read, such as its mode, may change without a trace in the stamps
			return err
		}
	}
	value, err := r.parse(contents)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(r.paths, ", "), err)
	}
	r.current.Store(&loaded[T]{value: value})
	return nil
}

func (r *reloading[T]) stat() ([]fs.FileInfo, error) {
	stamps := make([]fs.FileInfo, len(r.paths))
	for i, path := range r.paths {
		var err error
		if stamps[i], err = os.Stat(path); err != nil {
			return nil, err
		}
	}
	return stamps, nil
}

func (r *reloading[T]) unchanged(stamps []fs.FileInfo) bool {
	if len(stamps) != len(r.stamps) {
		return false
	}
	for i, s := range stamps {
		o := r.stamps[i]
		if !os.SameFile(s, o) || s.Size() != o.Size() || !s.ModTime().Equal(o.ModTime()) {
			return false
		}
	}
	return true
}
