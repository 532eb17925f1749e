package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rowlock/rowlock/resources"
)

var historyTests = map[string]func(*suite){
	"PrunedExact":           testPrunedExact,
	"PrunedWatch":           testPrunedWatch,
	"PrunedUnderACursor":    testPrunedUnderACursor,
	"PrunedWhileRead":       testPrunedWhileRead,
	"PruningKeepsObjects":   testPruningKeepsObjects,
	"PruningLeavesCaughtUp": testPruningLeavesCaughtUp,
	"QuietTypeOutlives":     testQuietTypeOutlives,
	"PruneInSteps":          testPruneInSteps,
	"KnowsTheObjectBefore":  testHistoryKnowsTheObjectBefore,
}

// *ExpiredError: at is Exact and that revision is no longer in history.
func testPrunedExact(s *suite) {
	_, before := s.story(pod("ns", "a"))
	last := s.snapshot("pods", current).Revision()
	s.h.Prune(s.T)
	for r := before; r < last; r++ {
		_, err := s.store.Snapshot(s.ctx, "pods", exactly(r))
		s.wantExpired(fmt.Sprintf("snapshot at %d", r), err)
		var expired *resources.ExpiredError
		if errors.As(err, &expired) {
			s.want("error", resources.ExpiredError{Requested: r, Oldest: last}, *expired)
		}
	}
	s.want("pods at the present revision", []string{}, s.contents(s.snapshot("pods", exactly(last))))
}

// *ExpiredError: history no longer reaches back to opts.After.
func testPrunedWatch(s *suite) {
	_, before := s.story(pod("ns", "a"))
	s.h.Prune(s.T)
	for r := before; r < before+3; r++ {
		_, err := s.store.Watch(s.ctx, resources.WatchOptions{Resource: "pods", After: r})
		s.wantExpired(fmt.Sprintf("watch after %d", r), err)
	}
	w := s.watch(resources.WatchOptions{Resource: "pods", After: before + 3})
	want, _ := s.story(pod("ns", "b"))
	s.want("events", want, s.events(w, 3))
}

// *ExpiredError: history was pruned beyond the cursor (the client must list again). No gap is skipped silently.
func testPrunedUnderACursor(s *suite) {
	start := s.snapshot("pods", current).Revision()
	w := s.watch(resources.WatchOptions{Resource: "pods", After: start})
	const events = 1000
	s.produce(events)
	s.h.Prune(s.T)
	for last := start; ; {
		got, _, err := w.Next(s.ctx, 100)
		if err != nil {
			s.wantExpired("next", err)
			return
		}
		for _, e := range got {
			if e.Revision != last+1 {
				s.Fatalf("event %d came after %d", e.Revision, last)
			}
			last = e.Revision
		}
		if len(got) == 0 {
			// A store that kept everything in memory may deliver the events, but then all of them.
			s.want("cursor", start+events, last)
			return
		}
	}
}

// *ExpiredError: history was pruned beyond the cursor. A reader sees no gap while it is pruned.
func testPrunedWhileRead(s *suite) {
	const events, readers = 1000, 16
	start := s.snapshot("pods", current).Revision()
	s.produce(events)
	var wg sync.WaitGroup
	reading := make(chan struct{}, readers)
	for range readers {
		w := s.watch(resources.WatchOptions{Resource: "pods", After: start})
		wg.Go(func() {
			for last := start; last < start+events; {
				got, _, err := w.Next(s.ctx, 7)
				if last == start {
					reading <- struct{}{}
				}
				if err != nil {
					s.wantExpired("next", err)
					return
				}
				for _, e := range got {
					if e.Revision != last+1 {
						s.Errorf("event %d came after %d", e.Revision, last)
						return
					}
					last = e.Revision
				}
			}
		})
	}
	for range readers {
		<-reading
	}
	s.h.Prune(s.T)
	wg.Wait()
}

// Pruning removes history, not objects.
func testPruningKeepsObjects(s *suite) {
	s.scribble(4, 100)
	want := s.snapshot("pods", current)
	s.h.Prune(s.T)
	got := s.snapshot("pods", current)
	s.want("pods", s.contents(want), s.contents(got))
	s.want("revision", want.Revision(), got.Revision())
	s.store = s.h.Restart(s.T)
	s.want("pods after a restart", s.contents(want), s.contents(s.snapshot("pods", current)))
	s.wantStates(s.scribble(5, 50))
}

// A watcher that has caught up loses nothing to pruning.
func testPruningLeavesCaughtUp(s *suite) {
	w := s.watch(resources.WatchOptions{Resource: "pods", After: s.snapshot("pods", current).Revision()})
	want, _ := s.story(pod("ns", "a"))
	s.want("events", want, s.events(w, 3))
	s.h.Prune(s.T)
	want, _ = s.story(pod("ns", "b"))
	s.want("events", want, s.events(w, 3))
}

// Only pruned history answers 410: where nothing changed, nothing was pruned.
func testQuietTypeOutlives(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "x"))
	s.commitOne(create(node("n"), "x"))
	s.h.Prune(s.T)
	w := s.watch(resources.WatchOptions{Resource: "pods", After: a.Revision})
	b := s.commitOne(create(pod("ns", "b"), "x"))
	s.want("events", []string{"create " + s.describe(b)}, s.events(w, 1))
}

// History is pruned by age, in order: younger history stays.
func testPruneInSteps(s *suite) {
	s.produce(600)
	s.h.Advance(HistoryAge / 2)
	want, before := s.story(pod("ns", "young"))
	s.h.Advance(HistoryAge/2 + HistoryAge/4)
	s.h.PruneDue(s.T)
	_, err := s.store.Snapshot(s.ctx, "pods", exactly(before-1))
	s.wantExpired("snapshot of before", err)
	s.want("pods of then", 600, s.snapshot("pods", exactly(before)).Count("", ""))
	w := s.watch(resources.WatchOptions{Resource: "pods", After: before})
	s.want("events", want, s.events(w, 3))
}
