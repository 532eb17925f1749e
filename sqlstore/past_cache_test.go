package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// rewrite updates objects, and returns the revision before.
func rewrite(t *testing.T, s *Store, objects []*resources.Object) (before int64) {
	t.Helper()
	before = s.revisions.current.Load()
	writes := make([]resources.Write, len(objects))
	for i, o := range objects {
		writes[i] = resources.Write{Op: resources.Update, Key: o.Key, From: o.Revision, Draft: draft(t, o.Namespace, o.Name)}
	}
	copy(objects, mustCommit(t, s, writes...))
	return before
}

func newPastCacheHarness(t *testing.T, max int64) (*Store, []*resources.Object) {
	t.Helper()
	s := newSQLiteHarness(t).store
	s.pastCache.max = max
	return s, mustCommit(t, s, createMaps(t, 100)...)
}

// bytes returns how many bytes the kept states hold, and how many are counted in all.
func (p *pastCache) bytes() (kept, live int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.order.Front(); e != nil; e = e.Next() {
		kept += e.Value.(*pastEntry).holds()
	}
	return kept, p.live
}

func (p *pastCache) wantBounded(t *testing.T) {
	t.Helper()
	if kept, live := p.bytes(); kept > p.max/2 || live > p.max {
		t.Errorf("%d bytes are kept and %d held in all, the bound is %d", kept, live, p.max)
	}
}

// Past states without changes hold nothing, and are bounded in number: a client may ask for every revision.
func TestPastListsAreBoundedInNumber(t *testing.T) {
	h := newSQLiteHarness(t)
	before := h.store.revisions.current.Load()
	made := mustCommit(t, h.store, createMaps(t, 40)...)
	h.close(t)
	s := h.open(t) // which has each type, as of the last revision
	s.pastCache.most = 10
	for _, o := range made {
		for range 2 {
			snapshot, err := s.Snapshot(t.Context(), "secrets", resources.At{Match: resources.Exact, Revision: o.Revision - 1})
			if err != nil || snapshot.Revision() != o.Revision-1 || snapshot.Count("", "") != 0 {
				t.Fatalf("at %d: %v", o.Revision-1, err)
			}
		}
	}
	s.pastCache.mu.Lock()
	n, keys := s.pastCache.order.Len(), len(s.pastCache.byKey)
	s.pastCache.mu.Unlock()
	if n != 10 || keys != n {
		t.Errorf("%d states are kept, %d by key", n, keys)
	}
	if s.pastCache.get(pastKey{"secrets", before}) != nil {
		t.Error("the least recently used state is kept")
	}
}

// Lists at many different past revisions are all answered, and take no more memory than the bound.
func TestPastListsAreBounded(t *testing.T) {
	s, objects := newPastCacheHarness(t, 2<<20)
	var revisions []int64
	for range 20 { // each state has 100 objects of 2 KB of its own
		revisions = append(revisions, rewrite(t, s, objects))
	}
	for _, r := range revisions {
		if n := mustSnapshot(t, s, resources.At{Match: resources.Exact, Revision: r}).Count("", ""); n != len(objects) {
			t.Errorf("%d objects at %d", n, r)
		}
		s.pastCache.wantBounded(t)
	}
	if n := s.pastCache.len(); n == 0 || n == len(revisions) {
		t.Errorf("%d states are kept", n)
	}
}

// A kept state also counts the objects that only it holds because they were replaced later.
func TestPastListsAreBoundedAsTimeGoesOn(t *testing.T) {
	s, objects := newPastCacheHarness(t, 2<<20)
	for range 20 {
		before := s.revisions.current.Load()
		objects[0] = mustCommit(t, s, resources.Write{Op: resources.Update, Key: objects[0].Key, From: objects[0].Revision,
			Draft: draft(t, "default", objects[0].Name)})[0]
		mustSnapshot(t, s, resources.At{Match: resources.Exact, Revision: before}) // differs in one object, which it keeps
		rewrite(t, s, objects)
		s.pastCache.wantBounded(t)
	}
	if n := s.pastCache.len(); n == 0 || n == 20 {
		t.Errorf("%d states are kept", n)
	}
}

// A list waits if all room is taken, and then gets an error to retry; a list that needs more than the whole room gets
// 410.
func TestPastListsWait(t *testing.T) {
	s, objects := newPastCacheHarness(t, 1<<20)
	s.pastCache.wait = 50 * time.Millisecond
	ctx := context.Background()
	var revisions []int64
	for range 6 {
		revisions = append(revisions, rewrite(t, s, objects))
	}
	at := func(i int) resources.At { return resources.At{Match: resources.Exact, Revision: revisions[i]} }
	var held []resources.Snapshot
	var err error
	for i := range revisions {
		var snapshot resources.Snapshot
		if snapshot, err = s.Snapshot(ctx, "configmaps", at(i)); err != nil {
			break
		}
		held = append(held, snapshot)
	}
	if !errors.Is(err, resources.ErrBusy) || len(held) < 2 {
		t.Fatalf("%d states are held, then %v, want ErrBusy", len(held), err)
	}
	s.pastCache.wantBounded(t)
	canceled, cancel := context.WithCancel(ctx)
	s.pastCache.wait = time.Hour
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := s.Snapshot(canceled, "configmaps", at(5)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	runtime.KeepAlive(held) // and may be freed after this
	if _, err := s.Snapshot(ctx, "configmaps", at(5)); err != nil {
		t.Errorf("when there is room again: %v", err)
	}

	s.pastCache.max = 100 << 10
	s.pastCache.clear()
	var expired *resources.ExpiredError
	if _, err := s.Snapshot(ctx, "configmaps", at(0)); !errors.As(err, &expired) {
		t.Errorf("of a state that is larger than all may be: %v, want ExpiredError", err)
	}
	if want := fmt.Sprint(s.revisions.current.Load()); expired != nil && fmt.Sprint(expired.Oldest) != want {
		t.Errorf("the error says that history begins at %d, want %s", expired.Oldest, want)
	}
}
