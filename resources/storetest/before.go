package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// A Watch delivers each event after its starting revision, with the object before it unchanged, whatever part of the
// history before was pruned. So do lists at older revisions, which undo changes.
func testHistoryKnowsTheObjectBefore(s *suite) {
	const step = HistoryAge / 50 // ages are known to a 64th of HistoryAge
	tale := s.tell(step)
	for pruned := 0; pruned <= len(tale.events); pruned++ {
		s.store = s.h.Restart(s.T) // memory has none of it
		switch pruned {
		case 0:
		case 1:
			s.h.Advance(HistoryAge - step*time.Duration(len(tale.events)) + step/2)
			s.h.PruneDue(s.T)
		default: // age continues across restarts
			s.h.Advance(step)
			s.h.PruneDue(s.T)
		}
		tale.check(s, pruned)
		if s.Failed() {
			s.Fatalf("with %d changes pruned", pruned)
		}
	}
}

// tale is a sequence of changes of some pods, with the time that passed after each change.
type tale struct {
	start  int64
	events []string   // by revision after start
	of     []string   // the name of each event's pod
	states [][]string // after each of them; the first is at start
}

// tell writes a tale: objects are created, changed once, changed often, deleted, and created again, alone and with
// others.
func (s *suite) tell(step time.Duration) (t tale) {
	names := []string{"a", "b", "c"}
	t.start = s.snapshot("pods", current).Revision()
	watch := s.watch(resources.WatchOptions{Resource: "pods", After: t.start})
	t.states = append(t.states, s.contents(s.snapshot("pods", current)))
	live := map[string]*resources.Object{}
	for i, of := range []int{0, 0, 1, 0, 2, 1, 1, 0, 2, 0, 1, 2, 2, 0, 1, 0, 2, 1} {
		name := names[of]
		var w resources.Write
		switch o := live[name]; {
		case o == nil:
			w = create(pod("ns", name), fmt.Sprint("made-", i))
		case i%5 == 4:
			w = remove(o)
		default:
			w = update(o, fmt.Sprint("changed-", i))
		}
		live[name] = s.commitOne(w)
		if w.Op == resources.Delete {
			delete(live, name)
		}
		t.events = append(t.events, s.events(watch, 1)...)
		t.of = append(t.of, name)
		t.states = append(t.states, s.contents(s.snapshot("pods", current)))
		s.h.Advance(step)
	}
	return t
}

// check reads the tale from each of its revisions; the first pruned of them are pruned.
func (t *tale) check(s *suite, pruned int) {
	s.Helper()
	for from := range t.events {
		revision := t.start + int64(from)
		w, err := s.store.Watch(s.ctx, resources.WatchOptions{Resource: "pods", After: revision})
		snap, serr := s.store.Snapshot(s.ctx, "pods", exactly(revision))
		if from < pruned {
			s.wantExpired(fmt.Sprintf("watch after change %d", from), errors.Join(err, serr))
			if err == nil || serr == nil {
				s.Fatalf("watch: %v, snapshot: %v", err, serr)
			}
			continue
		}
		if err != nil || serr != nil {
			s.Fatalf("from change %d: watch: %v, snapshot: %v", from, err, serr)
		}
		s.want(fmt.Sprintf("events after change %d", from), t.events[from:], s.events(w, len(t.events)-from))
		w.Close()
		s.want(fmt.Sprintf("pods after change %d", from), t.states[from], s.contents(snap))
		var want []string
		for i := from; i < len(t.events); i++ {
			if t.of[i] == "b" {
				want = append(want, t.events[i])
			}
		}
		w = s.watch(resources.WatchOptions{Resource: "pods", Namespace: "ns", Name: "b", After: revision})
		if len(want) > 0 {
			s.want(fmt.Sprintf("events of one object after change %d", from), want, s.events(w, len(want)))
		}
		w.Close()
	}
}
