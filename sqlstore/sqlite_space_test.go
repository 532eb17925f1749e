package sqlstore

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// comeAndGo creates and deletes so many objects.
func (h *sqliteHarness) comeAndGo(t *testing.T, objects int) {
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := worker; i < objects; i += 16 {
				o, err := h.store.Commit(context.Background(), createMap(t, strconv.Itoa(i)))
				if err == nil {
					_, err = h.store.Commit(context.Background(), resources.Write{Op: resources.Delete, Key: o[0].Key, From: o[0].Revision})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// History is bounded, and the file gives space back.
func TestSpaceIsGivenBack(t *testing.T) {
	h := newSQLiteHarness(t)
	const objects = 4000
	h.comeAndGo(t, objects)
	h.onWriter(t, h.store.db.checkpoint)
	before := fileSize(t, h.path)
	if before < objects*4000 {
		t.Fatalf("the file has only %d bytes", before)
	}
	h.clock.Step(2 * storetest.HistoryAge)
	h.prune(t)
	if after := fileSize(t, h.path); after > before/8 {
		t.Errorf("the file had %d bytes and has %d", before, after)
	}
	if n := h.store.historyBytes.Load(); n != 0 {
		t.Errorf("history has %d bytes and nothing in it", n)
	}
	if wal := fileSize(t, h.path+"-wal"); wal > 1<<20 {
		t.Errorf("the write-ahead log has %d bytes", wal)
	}
}

// History is bounded by size, even if it is not too old.
func TestHistorySize(t *testing.T) {
	h := newSQLiteHarness(t)
	h.close(t)
	o := h.options()
	o.HistorySize = 100 << 10
	var err error
	if h.store, err = Open(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		mustCommit(t, h.store, createMap(t, strconv.Itoa(i)))
	}
	h.prune(t)
	if n := h.store.historyBytes.Load(); n > o.HistorySize || n < o.HistorySize/2 {
		t.Errorf("history has %d bytes, its bound is %d", n, o.HistorySize)
	}
	var want int64
	const sum = "SELECT sum(length(data) + coalesce(length(prev_data), 0)) FROM changes"
	if err := h.store.db.reads.QueryRow(sum + ofHistory(h.store)).Scan(&want); err != nil {
		t.Fatal(err)
	}
	if n := h.store.historyBytes.Load(); n != want {
		t.Errorf("history is counted as %d bytes and has %d", n, want)
	}
}

// Giving space back waits for no reader, since all writers would wait with it, and later catches up on a cut that a
// reader prevented.
func TestReaderKeepsNobodyFromSpace(t *testing.T) {
	h := newSQLiteHarness(t)
	h.comeAndGo(t, 1000)
	h.onWriter(t, h.store.db.checkpoint)
	before := fileSize(t, h.path)
	reader, err := OpenSource(t.Context(), Options{URL: "sqlite://" + h.path})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	h.pragma(t, "PRAGMA busy_timeout = 3600000") // a wait as long as a statement's would exceed the test's time
	h.clock.Step(2 * storetest.HistoryAge)
	h.prune(t)
	mustCommit(t, h.store, createMap(t, "beside the reader"))
	if after := fileSize(t, h.path); after != before {
		t.Errorf("the file had %d bytes and has %d, which somebody reads", before, after)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	h.onWriter(t, h.store.db.checkpoint)
	if after := fileSize(t, h.path); after > before/4 {
		t.Errorf("the file had %d bytes and has %d", before, after)
	}
}

// Freed pages are kept for the next changes, and given back if those did not need them.
func TestFreePagesAreKeptForHistory(t *testing.T) {
	h := newSQLiteHarness(t)
	h.comeAndGo(t, 1000)
	h.onWriter(t, func() error {
		_, err := h.store.db.prune(h.store.revisions.current.Load())
		return err
	})
	mustCommit(t, h.store, createMap(t, "still in history"))
	free, before := h.pages(t)
	if free < before/2 {
		t.Fatalf("%d of %d pages are free", free, before)
	}
	if err := h.store.janitor.vacuum(0); err != nil {
		t.Fatal(err)
	}
	if _, after := h.pages(t); after != before {
		t.Errorf("of %d pages %d are left, and none were spare", before, after)
	}
	if err := h.store.janitor.vacuum(vacuumStep + 1); err != nil {
		t.Fatal(err)
	}
	// A page of pointers, five bytes for each page that it describes, is freed together with those pages.
	const step = vacuumStep / pageSize
	if _, after := h.pages(t); after < before-2*step-2*step/(pageSize/5)-2 || after >= before-step {
		t.Errorf("of %d pages %d are left, where %d were spare", before, after, step+1)
	}
	h.prune(t) // it has nothing to prune, so no change has needed the free pages
	if _, after := h.pages(t); after > before/2 {
		t.Errorf("of %d pages %d are left", before, after)
	}
}

// pages returns the numbers of free pages and of all pages of the database.
func (h *sqliteHarness) pages(t *testing.T) (free, all int64) {
	t.Helper()
	err := h.store.db.reads.QueryRow("SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count").Scan(&free, &all)
	if err != nil {
		t.Fatal(err)
	}
	return free, all
}

// Nothing runs when the store is idle: when history is empty and no object will expire, there is no timer.
func TestIdleStoreHasNoTimer(t *testing.T) {
	h := newSQLiteHarness(t)
	made := mustCommit(t, h.store, createMap(t, "a"), createMap(t, "b"))
	past := resources.At{Match: resources.Exact, Revision: made[0].Revision}
	if _, err := h.store.Snapshot(context.Background(), "configmaps", past); err != nil {
		t.Fatal(err)
	}
	done := func() bool {
		return h.store.floor.Load() == made[1].Revision && h.store.pastCache.len() == 0 &&
			h.store.janitor.idle() && !h.clock.HasWaiters()
	}
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("history begins at %d, %d past states are kept", h.store.floor.Load(), h.store.pastCache.len())
		}
		h.clock.Step(time.Second)
	}
}

func (p *pastCache) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byKey)
}

// idle reports whether no duty is due, ever.
func (j *janitor) idle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.due == [duties]time.Time{}
}

// The memory for history is bounded, over all types.
func TestLogBudget(t *testing.T) {
	h := newSQLiteHarness(t)
	for i := range 300 {
		w := createMap(t, strconv.Itoa(i))
		w.Key.Resource = []string{"configmaps", "secrets", "pods"}[i%3]
		mustCommit(t, h.store, w)
	}
	h.onWriter(t, func() error { // the budget belongs to the committer
		if b := &h.store.budget; b.used > b.limit || b.used < b.limit/2 {
			t.Errorf("%d bytes are in memory, the bound is %d", b.used, b.limit)
		}
		kept := 0
		for _, resource := range []string{"configmaps", "secrets", "pods"} {
			c := h.store.collection(resource)
			kept += len(c.log)
			for i, e := range c.log {
				if e.Revision <= c.logStart || (i > 0 && e.Revision <= c.log[i-1].Revision) {
					t.Errorf("%s: event %d is out of place", resource, e.Revision)
				}
			}
		}
		if kept != len(h.store.budget.queue) {
			t.Errorf("the logs hold %d events, the budget counts %d", kept, len(h.store.budget.queue))
		}
		return nil
	})
}

// Data that a database might refuse fail only their own request, and not others of the batch.
func TestOddDataIsRefused(t *testing.T) {
	h := newSQLiteHarness(t)
	for _, odd := range []string{"\x00", "\xff"} {
		w := createMap(t, "odd")
		w.Draft.Data = append(w.Draft.Data[:len(w.Draft.Data):len(w.Draft.Data)], odd...)
		if _, err := h.store.Commit(context.Background(), w); err == nil || errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("%q: %v", odd, err)
		}
	}
}
