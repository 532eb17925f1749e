package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/rowlock/rowlock/resources"
)

var manyWatchersTests = map[string]func(*suite){
	"ManyWatchers":          testManyWatchers,
	"WatchersComeAndGo":     testWatchersComeAndGo,
	"FastAndSlowWatchers":   testFastAndSlowWatchers,
	"WatchersInGoroutines":  testWatchersInGoroutines,
	"WatchWhileBeingOpened": testWatchWhileBeingOpened,
}

// A change wakes the watchers that it matches, among thousands, and each sees it once.
func testManyWatchers(s *suite) {
	const objects = 1000
	start := s.snapshot("pods", current).Revision()
	watches := make([]resources.Watch, 0, 2*objects)
	for i := range objects {
		name := fmt.Sprint(i)
		watches = append(watches,
			s.watch(resources.WatchOptions{Resource: "pods", Namespace: "ns", Name: name, After: start}),
			s.watch(resources.WatchOptions{Resource: "pods", Namespace: "ns-" + name, After: start}))
	}
	writes := make([]resources.Write, 0, 2*objects)
	for i := range objects {
		name := fmt.Sprint(i)
		writes = append(writes, create(pod("ns", name), "x"), create(pod("ns-"+name, "a"), "x"))
	}
	made := s.commit(writes...)
	for i, w := range watches {
		s.want("event", []string{"create " + s.describe(made[i])}, s.events(w, 1))
		s.quiet(w)
	}
}

// Every event after its starting revision is delivered once, in revision order, whenever a watch was opened.
func testWatchersComeAndGo(s *suite) {
	const events = 400
	start := s.snapshot("pods", current).Revision()
	var wg sync.WaitGroup
	wg.Go(func() { s.produce(events) })
	for i := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 2))
			after := start
			for after < start+events {
				w, err := s.store.Watch(s.ctx, resources.WatchOptions{Resource: "pods", After: after})
				if err != nil {
					s.Errorf("watch: %v", err)
					return
				}
				after = s.follow(w, after, min(after+1+random.Int64N(60), start+events), 1+random.IntN(20))
				w.Close()
				if after < 0 {
					return
				}
			}
		})
	}
	wg.Wait()
}

// produce creates pods, one event each.
func (s *suite) produce(n int) {
	for i := range n {
		if _, err := s.store.Commit(s.ctx, create(pod("ns", fmt.Sprint(i)), "x")); err != nil {
			s.Errorf("commit: %v", err)
			return
		}
	}
}

// follow reads a watch of a type that has an event at every revision, from after up to a revision, and returns where it
// stopped, or -1 after a failure.
func (s *suite) follow(w resources.Watch, after, until int64, max int) int64 {
	for after < until {
		events, revision, err := w.Next(s.ctx, max)
		if err != nil {
			s.Errorf("next after %d: %v", after, err)
			return -1
		}
		for _, e := range events {
			if e.Revision != after+1 {
				s.Errorf("event %d came after %d", e.Revision, after)
				return -1
			}
			after = e.Revision
		}
		if revision != after {
			s.Errorf("the cursor says %d after event %d", revision, after)
			return -1
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-s.ctx.Done():
			s.Errorf("nothing came after %d", after)
			return -1
		}
	}
	return after
}

// A slow watcher costs nothing and is never dropped while the revision it stands at is in history.
func testFastAndSlowWatchers(s *suite) {
	const events = 600
	start := s.snapshot("pods", current).Revision()
	slow := s.watch(resources.WatchOptions{Resource: "pods", After: start})
	fast := s.watch(resources.WatchOptions{Resource: "pods", After: start})
	var wg sync.WaitGroup
	wg.Go(func() { s.produce(events) })
	wg.Go(func() { s.follow(fast, start, start+events, 100) })
	wg.Wait()
	s.follow(slow, start, start+events, 1)
}

// Many watchers of one type follow while writers run.
func testWatchersInGoroutines(s *suite) {
	const events = 300
	start := s.snapshot("pods", current).Revision()
	var wg sync.WaitGroup
	for range 100 {
		w := s.watch(resources.WatchOptions{Resource: "pods", After: start})
		wg.Go(func() { s.follow(w, start, start+events, 50) })
	}
	wg.Go(func() { s.produce(events) })
	wg.Wait()
}

// A list and a watch from its revision leave no gap, however many writes come in between.
func testWatchWhileBeingOpened(s *suite) {
	const events = 300
	start := s.snapshot("pods", current).Revision()
	var wg sync.WaitGroup
	wg.Go(func() { s.produce(events) })
	for range 8 {
		wg.Go(func() {
			for at := start; at >= 0 && at < start+events; {
				snap, err := s.store.Snapshot(s.ctx, "pods", any_)
				if err != nil {
					s.Errorf("snapshot: %v", err)
					return
				}
				at = snap.Revision()
				if n := snap.Count("", ""); int64(n) != at-start {
					s.Errorf("the snapshot at %d has %d objects, want %d", at, n, at-start)
				}
				if at == start+events {
					return
				}
				w, err := s.store.Watch(s.ctx, resources.WatchOptions{Resource: "pods", After: at})
				if err != nil {
					s.Errorf("watch: %v", err)
					return
				}
				at = s.follow(w, at, at+1, 5)
				w.Close()
			}
		})
	}
	wg.Wait()
}
