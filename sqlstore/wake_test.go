package sqlstore

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

func openWatch(t *testing.T, s *Store, opts resources.WatchOptions) *watch {
	t.Helper()
	opts.Resource = "configmaps"
	w, err := s.Watch(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w.(*watch)
}

func signalled(w *watch) bool { return len(w.ready) > 0 }

// created is a change that is visible to reads and not yet announced to watches.
func created(t *testing.T, s *Store, names ...string) []*resources.Event {
	t.Helper()
	c := s.collection("configmaps")
	revision := s.revisions.current.Load()
	var events []*resources.Event
	for _, name := range names {
		revision++
		key := configMap("default", name)
		events = append(events, &resources.Event{Op: resources.Create, Revision: revision,
			Object: resources.NewObject(key, draft(t, "default", name), revision)})
	}
	c.advance(events)
	s.revisions.advance(revision)
	return events
}

func mustNext(t *testing.T, w *watch, want ...*resources.Event) {
	t.Helper()
	events, _, err := w.Next(context.Background(), 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d", len(events), len(want))
	}
	for i := range want {
		if events[i] != want[i] {
			t.Errorf("event %d is %s at %d", i, events[i].Object.Key, events[i].Revision)
		}
	}
}

// Announcing, for which writers wait, touches only followers, and yet every watch has the change from then on.
func TestWritersDoNotWaitForWatchers(t *testing.T) {
	s := newSQLiteHarness(t).store
	start := s.revisions.current.Load()
	calls := 0
	follower := openWatch(t, s, resources.WatchOptions{After: start, Wake: func() { calls++ }})
	asks, waits := openWatch(t, s, resources.WatchOptions{After: start}), openWatch(t, s, resources.WatchOptions{After: start})
	c := s.collection("configmaps")
	change := created(t, s, "a")
	mustNext(t, asks, change...) // the change is not announced, but visible to reads
	mustNext(t, asks)
	mustNext(t, follower)
	if !c.announce(change) {
		t.Error("nobody is to be woken")
	}
	if signalled(asks) || signalled(waits) {
		t.Error("a watcher was woken while the writer waited")
	}
	if calls != 1 {
		t.Errorf("the follower was called %d times", calls)
	}
	mustNext(t, asks)
	mustNext(t, follower, change...)
	more := created(t, s, "b", "c")
	if c.announce(more) {
		t.Error("two goroutines are to wake the same watchers")
	}
	late := openWatch(t, s, resources.WatchOptions{After: change[0].Revision})
	mustNext(t, asks, more...)
	mustNext(t, asks)
	c.wake(func() {})
	if signalled(asks) {
		t.Error("a watcher was woken for what it has")
	}
	if !signalled(waits) || !signalled(late) {
		t.Error("a watcher was not woken")
	}
	mustNext(t, waits, append(change, more...)...)
	mustNext(t, late, more...)
	if len(c.present)+len(c.pending) > 0 || c.waking {
		t.Error("the round is not over")
	}
}

// A watch with a Notify gets calls exactly when others get a value from Ready, and calls aside when it reads history.
func TestNotify(t *testing.T) {
	s := newSQLiteHarness(t).store
	start := s.revisions.current.Load()
	calls, aside := 0, 0
	w := openWatch(t, s, resources.WatchOptions{After: start, Notify: func() { calls++ }, Aside: func() { aside++ }})
	if w.Ready() != nil || calls != 0 {
		t.Errorf("it has another way, or was called %d times for nothing", calls)
	}
	c := s.collection("configmaps")
	change := created(t, s, "a")
	c.announce(change)
	if calls != 0 {
		t.Error("it was called while the writer waited")
	}
	c.wake(func() {})
	if calls != 1 || aside != 0 {
		t.Errorf("%d calls, %d times aside", calls, aside)
	}
	mustNext(t, w, change...)
	more := created(t, s, "b", "c")
	c.announce(more)
	c.wake(func() {})
	if events, _, err := w.Next(context.Background(), 1); err != nil || len(events) != 1 || calls != 3 {
		t.Errorf("%d events, %v, %d calls: there is more to come", len(events), err, calls)
	}
	mustNext(t, w, more[1])
	behind := 0
	openWatch(t, s, resources.WatchOptions{After: start, Notify: func() { behind++ }})
	if behind != 1 {
		t.Errorf("one that begins behind was called %d times", behind)
	}
}

// Between slices the lock is free, watches come and go, and changes are announced. All watchers are told of all
// changes, and that of a single object before the others.
func TestWakeInSlices(t *testing.T) {
	const watchers = 10 * wakeSlice
	s := newSQLiteHarness(t).store
	start := s.revisions.current.Load()
	var crowd []*watch
	for range watchers {
		crowd = append(crowd, openWatch(t, s, resources.WatchOptions{After: start}))
	}
	single := openWatch(t, s, resources.WatchOptions{Namespace: "default", Name: "a", After: start})
	c := s.collection("configmaps")
	all := created(t, s, "a")
	c.announce(all)
	slices := 0
	var closed []*watch
	c.wake(func() {
		if !c.mu.TryLock() {
			t.Fatal("the lock is held between slices")
		}
		c.mu.Unlock()
		slices++
		told := 0
		for _, w := range crowd {
			if signalled(w) {
				told++
			}
		}
		if slices <= 10 && told > slices*wakeSlice {
			t.Errorf("%d watchers were told in %d slices", told, slices)
		}
		if slices == 1 && !signalled(single) {
			t.Error("the watcher of a single object waits for the crowd")
		}
		if slices == 2 {
			more := created(t, s, "b")
			all = append(all, more...)
			if c.announce(more) {
				t.Error("two goroutines are to wake the same watchers")
			}
			for len(closed) < 2*wakeSlice {
				w := crowd[0]
				w.Close()
				closed, crowd = append(closed, w), crowd[1:]
			}
			crowd = append(crowd, openWatch(t, s, resources.WatchOptions{After: start}))
		}
	})
	if slices < watchers/wakeSlice {
		t.Errorf("%d watchers were told in %d slices", watchers, slices)
	}
	for _, w := range crowd {
		if !signalled(w) {
			t.Fatal("a watcher was not woken")
		}
		mustNext(t, w, all...)
	}
	mustNext(t, single, all[0])
}

// The watches of a group are told in one go, in whatever order they were opened, and all watches of all groups are
// told.
func TestWakeByGroup(t *testing.T) {
	const groups, each = 7, groupSlice - 3
	s := newSQLiteHarness(t).store
	start := s.revisions.current.Load()
	members := map[string][]*watch{}
	for range each {
		for g := range groups {
			group := strconv.Itoa(g)
			if g == 0 {
				group = ""
			}
			members[group] = append(members[group], openWatch(t, s, resources.WatchOptions{After: start, Group: group}))
		}
	}
	for range wakeSlice - 1 { // they are told first, and no group is split for them
		w := openWatch(t, s, resources.WatchOptions{After: start, Namespace: "default", Name: "a"})
		defer w.Close()
	}
	c := s.collection("configmaps")
	c.announce(created(t, s, "a"))
	slices := 0
	c.wake(func() {
		slices++
		for group, all := range members {
			told := 0
			for _, w := range all {
				if signalled(w) {
					told++
				}
			}
			if group != "" && told != 0 && told != each {
				t.Errorf("between slices, %d of the %d watches of group %s are told", told, each, group)
			}
		}
	})
	if slices < groups {
		t.Errorf("%d groups were told in %d slices", groups, slices)
	}
	for _, all := range members {
		for _, w := range all {
			if !signalled(w) {
				t.Fatal("a watch was not woken")
			}
			w.Close()
		}
	}
	if n := len(c.watchers.byScope); n != 1 { // the watches of one object
		t.Errorf("%d crowds are left of watches that are closed", n)
	}
}

// Close ends the goroutines that wake watchers, and every watch then returns ErrClosed.
func TestCloseWhileWaking(t *testing.T) {
	h := newSQLiteHarness(t)
	s := h.store
	var all sync.WaitGroup
	for range 5 * wakeSlice {
		w := openWatch(t, s, resources.WatchOptions{After: s.revisions.current.Load()})
		all.Go(func() {
			for {
				<-w.Ready()
				if _, _, err := w.Next(context.Background(), 10); err != nil {
					return
				}
			}
		})
	}
	for _, w := range createMaps(t, 20) {
		mustCommit(t, s, w)
	}
	h.close(t)
	all.Wait()
	if s.collection("configmaps").waking {
		t.Error("a goroutine is still waking watchers after the store was closed")
	}
	h.open(t)
}
