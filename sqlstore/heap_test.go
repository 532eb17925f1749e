package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources"
)

// contents returns the objects of a snapshot by path.
func contents(s resources.Snapshot) map[string]string {
	all := map[string]string{}
	s.Ascend("", "", func(o *resources.Object) bool {
		all[o.Path()] = fmt.Sprint(o.Revision, " ", o.Labels, " ", string(o.Data))
		return true
	})
	return all
}

func mustSnapshot(t *testing.T, s *Store, at resources.At) resources.Snapshot {
	t.Helper()
	snapshot, err := s.Snapshot(context.Background(), "configmaps", at)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func createMaps(t *testing.T, n int) []resources.Write {
	t.Helper()
	writes := make([]resources.Write, n)
	for i := range writes {
		writes[i] = createMap(t, fmt.Sprintf("map-%05d", i))
	}
	return writes
}

// Defragmenting does not change what reads return, now or at an older revision, and is done once.
func TestDefragmentKeepsEverything(t *testing.T) {
	s := newSQLiteHarness(t).store
	first := mustCommit(t, s, createMaps(t, 2*defragmentStep+7)...)[0]
	old := s.revisions.current.Load()
	mustCommit(t, s, resources.Write{Op: resources.Update, Key: first.Key, From: first.Revision, Draft: draft(t, "default", first.Name)})
	before, past := contents(mustSnapshot(t, s, resources.At{})), contents(mustSnapshot(t, s, resources.At{Match: resources.Exact, Revision: old}))
	var moved []int
	note := func(bytes int) bool {
		moved = append(moved, bytes)
		return true
	}
	s.DefragmentHeap(true, note)
	if len(moved) != 3 || moved[1] < defragmentStep*1900 {
		t.Errorf("moved %d bytes", moved)
	}
	if diff := cmp.Diff(before, contents(mustSnapshot(t, s, resources.At{}))); diff != "" {
		t.Error(diff)
	}
	s.pastCache.clear() // so that it is computed again
	if diff := cmp.Diff(past, contents(mustSnapshot(t, s, resources.At{Match: resources.Exact, Revision: old}))); diff != "" {
		t.Error(diff)
	}
	if s.DefragmentHeap(true, note); len(moved) != 3 {
		t.Errorf("moved %d bytes though nothing was written", moved)
	}
}

func TestDefragmentEndsWhenTold(t *testing.T) {
	s := newSQLiteHarness(t).store
	mustCommit(t, s, createMaps(t, defragmentStep+9)...)
	steps := 0
	s.DefragmentHeap(true, func(int) bool {
		steps++
		return false
	})
	if steps != 1 {
		t.Errorf("%d steps", steps)
	}
	// It goes on where it stopped.
	var moved []int
	s.DefragmentHeap(true, func(bytes int) bool {
		moved = append(moved, bytes)
		return true
	})
	if len(moved) != 1 || moved[0] > 10*1900 {
		t.Errorf("then moved %d bytes", moved)
	}
}

// Writers go on while objects are moved, and none of their writes is undone.
func TestDefragmentBesideWriters(t *testing.T) {
	const writers, each = 4, 20
	s := newSQLiteHarness(t).store
	mustCommit(t, s, createMaps(t, defragmentStep)...)
	var writing sync.WaitGroup
	for n := range writers {
		writing.Go(func() {
			for i := range each {
				if _, err := s.Commit(context.Background(), createMap(t, fmt.Sprintf("new-%d-%d", n, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		writing.Wait()
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			c := s.collection("configmaps")
			c.mu.Lock()
			c.written = defragmentStep
			c.mu.Unlock()
			s.DefragmentHeap(true, func(int) bool { return true })
		}
	}
	if n := mustSnapshot(t, s, resources.At{}).Count("", ""); n != defragmentStep+writers*each {
		t.Errorf("%d of %d objects are there", n, defragmentStep+writers*each)
	}
}

// A watch reads from the database the changes that were dropped from the logs in memory.
func TestDefragmentForgetsNoEvent(t *testing.T) {
	h := newSQLiteHarness(t)
	h.close(t)
	options := h.options()
	options.LogSize = DefaultLogSize
	s, err := Open(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	h.store = s
	start := s.revisions.current.Load()
	cursor, err := s.Watch(context.Background(), resources.WatchOptions{Resource: "configmaps", After: start})
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	mustCommit(t, s, createMaps(t, defragmentStep+9)...)
	c := s.collection("configmaps")
	if c.mu.Lock(); len(c.log) != defragmentStep+9 {
		t.Fatalf("the log has %d changes in memory", len(c.log))
	}
	c.mu.Unlock()
	s.DefragmentHeap(true, func(int) bool { return true })
	if c.mu.Lock(); len(c.log) != 0 {
		t.Errorf("the log still has %d changes in memory", len(c.log))
	}
	c.mu.Unlock()
	created := mustCommit(t, s, createMap(t, "after"))[0]
	for want := start + 1; want <= created.Revision; {
		events, _, err := cursor.Next(context.Background(), 100)
		if err != nil || len(events) == 0 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		for _, e := range events {
			if e.Revision != want {
				t.Fatalf("got %d, want %d", e.Revision, want)
			}
			want++
		}
	}
}

// While watches are open the logs stay, with their objects; those move after the logs are dropped.
func TestDefragmentKeepsTheLogForWatches(t *testing.T) {
	h := newSQLiteHarness(t)
	h.close(t)
	options := h.options()
	options.LogSize = DefaultLogSize
	h.store = mustOpen(t, options)
	mustCommit(t, h.store, createMaps(t, defragmentStep+9)...)
	bytes := 0
	note := func(n int) bool {
		bytes += n
		return true
	}
	if h.store.DefragmentHeap(false, note); bytes != 0 || h.store.logged("configmaps") != defragmentStep+9 {
		t.Errorf("moved %d bytes, the log has %d changes", bytes, h.store.logged("configmaps"))
	}
	if h.store.DefragmentHeap(true, note); bytes < defragmentStep*1900 || h.store.logged("configmaps") != 0 {
		t.Errorf("then moved %d bytes, the log has %d changes", bytes, h.store.logged("configmaps"))
	}
}

// A step moves a bounded number of bytes, however large the objects are, and leaves the largest where they are.
func TestDefragmentInSteps(t *testing.T) {
	s := newSQLiteHarness(t).store
	const n, medium, large = 120, 30 << 10, 256 << 10
	var writes []resources.Write
	for i := range 3 * n {
		writes = append(writes, largeMap(t, resources.Create, fmt.Sprintf("map-%05d", i), 0, []int{300, medium, large}[i%3]))
	}
	mustCommit(t, s, writes...)
	before := mustSnapshot(t, s, resources.At{})
	c := s.collection("configmaps")
	c.mu.Lock()
	c.written = defragmentStep
	c.mu.Unlock()
	total := 0
	s.DefragmentHeap(true, func(bytes int) bool {
		if total += bytes; bytes >= defragmentBytes+medium+slabSize {
			t.Errorf("a step moved %d bytes", bytes)
		}
		return true
	})
	if total < n*medium {
		t.Errorf("%d bytes were moved", total)
	}
	after := mustSnapshot(t, s, resources.At{})
	if diff := cmp.Diff(contents(before), contents(after)); diff != "" {
		t.Error(diff)
	}
	after.Ascend("", "", func(o *resources.Object) bool {
		was := before.Get(o.Namespace, o.Name)
		if stays := &was.Data[0] == &o.Data[0]; stays != (len(o.Data) > slabSize) {
			t.Errorf("%s of %d bytes: stays is %t", o.Name, len(o.Data), stays)
		}
		return true
	})
}
