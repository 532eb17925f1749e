package sqlstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

// boundLog makes the bound of the write-ahead log small, so that few writes reach it, and changes nothing else.
func (h *sqliteHarness) boundLog(t *testing.T, bound int64) {
	t.Helper()
	h.pragma(t, "PRAGMA wal_autocheckpoint = 256")
	h.pragma(t, "PRAGMA journal_size_limit = 1048576")
	h.onWriter(t, func() error {
		h.driver().trimmer.max = bound
		return nil
	})
}

// writeMuch creates so many objects, and returns the maximum size of the write-ahead log.
func (h *sqliteHarness) writeMuch(t *testing.T, objects int) (mostLog int64) {
	t.Helper()
	var writers sync.WaitGroup
	var mu sync.Mutex
	for worker := range 16 {
		writers.Go(func() {
			for i := worker; i < objects; i += 16 {
				if _, err := h.store.Commit(context.Background(), createMap(t, strconv.Itoa(i))); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				mostLog = max(mostLog, fileSize(t, h.path+"-wal"))
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	return mostLog
}

// The write-ahead log stays bounded while watchers read history.
func TestLogStaysBounded(t *testing.T) {
	h := newSQLiteHarness(t)
	const bound = 2 << 20
	h.boundLog(t, bound)
	h.store.catchUps.max = 0 // so that each watch reads for itself
	ctx, cancel := context.WithCancel(context.Background())
	start := h.store.revisions.current.Load()
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil { // reads all of history, again and again
				w, err := h.store.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
				if err != nil {
					return
				}
				for {
					if events, _, err := w.Next(ctx, 1000); err != nil || len(events) == 0 {
						break
					}
				}
				w.Close()
			}
		})
	}
	most := h.writeMuch(t, 2000)
	cancel()
	readers.Wait()
	if most > 2*bound+batchBytes {
		t.Errorf("the write-ahead log had %d bytes", most)
	}
}

// isShut reports whether new reads have to wait.
func (g *readGate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opens != nil
}

// The write-ahead log stays bounded although there is no moment without a reader: each read takes longer than a cut
// waits for, and goes on until the next one has begun, if the gate lets that in.
func TestLogStaysBoundedWithoutAGap(t *testing.T) {
	h := newSQLiteHarness(t)
	const bound = 2 << 20
	h.boundLog(t, bound)
	mustCommit(t, h.store, createMap(t, "first"))
	var begun [2]atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for n := range begun {
		readers.Go(func() {
			for ctx.Err() == nil {
				err := h.store.db.each(context.Background(), func(func(...any) error) error {
					other, from := begun[1-n].Load(), time.Now()
					begun[n].Add(1)
					for !h.store.db.gate.isShut() && ctx.Err() == nil && (begun[1-n].Load() == other || time.Since(from) < 3*walBusyTimeout) {
						time.Sleep(time.Millisecond)
					}
					return errStop
				}, "SELECT revision FROM changes")
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	most := h.writeMuch(t, 4000)
	cancel()
	readers.Wait()
	if most > 2*bound+batchBytes {
		t.Errorf("the write-ahead log had %d bytes", most)
	}
}

// A long read is ended when the write-ahead log has to be cut, and other reads are let in; the log is cut even if there
// are no more writes.
func TestLongReadIsEnded(t *testing.T) {
	h := newSQLiteHarness(t)
	const bound = 2 << 20
	h.boundLog(t, bound)
	mustCommit(t, h.store, createMap(t, "first"))
	reads, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		ended <- h.store.db.each(context.Background(), func(func(...any) error) error {
			once.Do(func() { close(reads) })
			time.Sleep(time.Millisecond)
			return nil
		}, "WITH RECURSIVE n(i) AS (SELECT (SELECT revision FROM meta) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
	}()
	<-reads
	for i := 0; fileSize(t, h.path+"-wal") < bound; i++ {
		mustCommit(t, h.store, createMap(t, strconv.Itoa(i)))
	}
	mustCommit(t, h.store, createMap(t, "last"))
	if _, err := h.store.db.revision(t.Context()); err != nil {
		t.Errorf("a read that came meanwhile: %v", err)
	}
	if err := <-ended; !errors.Is(err, resources.ErrUnavailable) || !errors.Is(err, errHeld) {
		t.Errorf("the long read: %v", err)
	}
	if size := fileSize(t, h.path+"-wal"); size >= bound {
		t.Errorf("the write-ahead log has %d bytes", size)
	}
}

// A read that was ended before its first row is repeated, once, without an error.
func TestReadBeginsAgain(t *testing.T) {
	g := newReadGate()
	for _, c := range []struct {
		times int
		again bool
		reads int
		fails bool
	}{{0, true, 1, false}, {1, true, 2, false}, {1, false, 1, true}, {2, true, 2, true}} {
		reads := 0
		err := g.pass(t.Context(), t.Context(), func() bool { return c.again }, func(held context.Context) error {
			if reads++; reads <= c.times {
				g.shut()
				g.clear()
				g.open()
			}
			return held.Err()
		})
		if reads != c.reads || errors.Is(err, errHeld) != c.fails || errors.Is(err, resources.ErrUnavailable) != c.fails || !c.fails && err != nil {
			t.Errorf("%+v: %d reads: %v", c, reads, err)
		}
	}
}

// The committer's own reads pass a gate that is shut: only the committer would open it.
func TestCommitterPassesTheGate(t *testing.T) {
	h := newSQLiteHarness(t)
	h.close(t)
	o := h.options()
	o.ObjectHistory = ObjectHistory{Age: time.Hour, Revisions: 2, Size: 1 << 20}
	var err error
	if h.store, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	first := mustCommit(t, h.store, createMap(t, "first"))[0]
	h.clock.Step(4 * storetest.HistoryAge)
	h.onWriter(t, func() error {
		h.store.db.gate.shut()
		defer h.store.db.gate.open()
		_, err := h.store.janitor.pruneOnce(h.clock.Now())
		_, rerr := h.store.recordedOf([]oldChange{{revision: first.Revision + 1}})
		b := &batch{revision: first.Revision}
		h.store.applying.Lock()
		defer h.store.applying.Unlock()
		return errors.Join(err, rerr, h.store.ascertain(b, resources.ErrUnknownOutcome))
	})
	if h.store.floor.Load() != first.Revision {
		t.Errorf("history begins at %d, want %d", h.store.floor.Load(), first.Revision)
	}
}

// A store that is closed while its gate is shut leaves no read waiting.
func TestCloseOpensTheGate(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "first"))
	_, hold, err := h.store.db.gate.enter(t.Context(), t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.store.db.gate.shut()
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		if _, inside, err := h.store.db.gate.enter(context.Background(), context.Background()); err == nil {
			_ = inside.leave(nil)
		}
	}()
	h.close(t)
	if err := hold.leave(nil); err != nil {
		t.Error(err)
	}
	<-waits
	h.open(t)
}
