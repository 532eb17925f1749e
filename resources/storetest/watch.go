package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

var watchTests = map[string]func(*suite){
	"WatchFromRevision":      testWatchFromRevision,
	"WatchFromState":         testWatchFromState,
	"WatchScopes":            testWatchScopes,
	"WatchOfNothingStorable": testWatchOfNothingStorable,
	"WatchFuture":            testWatchFuture,
	"CursorOfQuietType":      testCursorOfQuietType,
	"CursorNotAhead":         testCursorNotAhead,
	"NextMax":                testNextMax,
	"ReadyThenNext":          testReadyThenNext,
	"WakeThenNext":           testWakeThenNext,
	"WakeBeforeAnswer":       testWakeBeforeAnswer,
	"EventsAreShared":        testEventsAreShared,
	"SelectorTransition":     testSelectorTransition,
	"ClosedWatchIsQuiet":     testClosedWatchIsQuiet,
	"WatchWithGoneContext":   testWatchWithGoneContext,
	"WatchThroughHistory":    testWatchThroughHistory,
	"QuietWatchOverHistory":  testQuietWatchOverHistory,
	"ManyChangesOfOneObject": testManyChangesOfOneObject,
}

// story creates, changes and deletes a pod, and returns the events of that and the revision before it.
func (s *suite) story(key resources.Key) (events []string, before int64) {
	s.Helper()
	a := s.commitOne(create(key, "one"))
	b := s.commitOne(update(a, "two"))
	c := s.commitOne(remove(b))
	return []string{
		"create " + s.describe(a),
		"update " + s.describe(b) + " from " + s.describe(a),
		"delete " + s.describe(c) + " from " + s.describe(b),
	}, a.Revision - 1
}

// Watch opens a cursor that will see every event with a revision greater than opts.After.
func testWatchFromRevision(s *suite) {
	want, before := s.story(pod("ns", "a"))
	for i := range want {
		w := s.watch(resources.WatchOptions{Resource: "pods", After: before + int64(i)})
		s.want(fmt.Sprintf("events after %d", before+int64(i)), want[i:], s.events(w, len(want)-i))
		s.want("cursor", before+3, s.quiet(w))
	}
}

// A list and a watch from its revision deliver everything, and nothing twice.
func testWatchFromState(s *suite) {
	s.story(pod("ns", "before"))
	w := s.watch(resources.WatchOptions{Resource: "pods", After: s.snapshot("pods", current).Revision()})
	s.quiet(w)
	want, _ := s.story(pod("ns", "a"))
	s.want("events", want, s.events(w, 3))
	s.quiet(w)
}

// Namespace and Name narrow the watch; empty means all.
func testWatchScopes(s *suite) {
	start := s.snapshot("pods", current).Revision()
	scopes := []resources.WatchOptions{{}, {Namespace: "a"}, {Namespace: "b"}, {Namespace: "a", Name: "x"}, {Name: "x"}, {Namespace: "c"}}
	live := make([]resources.Watch, len(scopes))
	for i, o := range scopes {
		o.Resource, o.After = "pods", start
		live[i] = s.watch(o)
	}
	type told struct {
		key    resources.Key
		events []string
	}
	var all []told
	for _, key := range []resources.Key{pod("a", "x"), pod("a", "y"), pod("b", "x"), node("x")} {
		events, _ := s.story(key)
		all = append(all, told{key, events})
	}
	end := s.snapshot("pods", current).Revision()
	for i, o := range scopes {
		want := []string{}
		for _, t := range all {
			if t.key.Resource == "pods" && (o.Namespace == "" || o.Namespace == t.key.Namespace) && (o.Name == "" || o.Name == t.key.Name) {
				want = append(want, t.events...)
			}
		}
		o.Resource, o.After = "pods", start
		for what, w := range map[string]resources.Watch{"live": live[i], "later": s.watch(o)} {
			s.want(fmt.Sprintf("events of %+v, %s", o, what), want, s.events(w, len(want)))
			s.want("cursor", end, s.quiet(w))
		}
	}
}

// A watch of a namespace or a name that no Storable key has delivers nothing, however far back it begins. That is not an error: a
// client would retry an error for ever.
func testWatchOfNothingStorable(s *suite) {
	start := s.snapshot("pods", current).Revision()
	s.produce(1000) // more than memory keeps
	for _, part := range []string{"a\x00b", "\xff", "ns\xc3", incompressible(2 * resources.MaxKeyBytes)} {
		for _, scope := range []resources.WatchOptions{{Namespace: part}, {Name: part}, {Namespace: "ns", Name: part}} {
			scope.Resource, scope.After = "pods", start
			s.want(fmt.Sprintf("cursor of %.10q, %.10q", scope.Namespace, scope.Name), start+1000, s.quiet(s.watch(scope)))
		}
	}
	w := s.watch(resources.WatchOptions{Resource: "pods", Namespace: "a\x00b", After: start})
	last := s.commitOne(create(pod("ns", "later"), "x"))
	s.want("cursor after another write", last.Revision, s.quiet(w))
}

// An opts.After in the future is not an error: the cursor stays silent until the store has passed it.
func testWatchFuture(s *suite) {
	start := s.snapshot("pods", current).Revision()
	w := s.watch(resources.WatchOptions{Resource: "pods", After: start + 4})
	s.want("cursor", start+4, s.quiet(w))
	s.story(pod("ns", "a"))
	s.want("cursor", start+4, s.quiet(w))
	want, _ := s.story(pod("ns", "b"))
	s.want("events", want[1:], s.events(w, 2))
}

// The returned revision is the position of the cursor, also when the watched type is silent.
func testCursorOfQuietType(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "x"))
	watches := []resources.Watch{
		s.watch(resources.WatchOptions{Resource: "pods", After: a.Revision}),
		s.watch(resources.WatchOptions{Resource: "pods", Namespace: "other", After: a.Revision}),
		s.watch(resources.WatchOptions{Resource: "secrets", After: a.Revision}),
	}
	for i := range 3 {
		n := s.commitOne(create(node(fmt.Sprint(i)), "x"))
		for _, w := range watches {
			s.want("cursor", n.Revision, s.quiet(w))
		}
	}
	want, _ := s.story(pod("other", "b"))
	s.want("events", want, s.events(watches[0], 3))
	s.want("events", want, s.events(watches[1], 3))
}

// Every event up to the returned revision was returned by this call or an earlier one.
func testCursorNotAhead(s *suite) {
	start := s.snapshot("pods", current).Revision()
	w := s.watch(resources.WatchOptions{Resource: "pods", After: start})
	for i := range 50 {
		s.commitOne(create(pod("ns", fmt.Sprint(i)), "x"))
	}
	last := start
	for last < start+50 {
		events, revision, err := w.Next(s.ctx, 7)
		if err != nil {
			s.Fatal(err)
		}
		for _, e := range events {
			s.want("next event", last+1, e.Revision)
			last = e.Revision
		}
		if revision != last {
			s.Fatalf("after event %d of %d the cursor says %d", last, start+50, revision)
		}
	}
}

// Next returns the events after the cursor, up to max of them.
func testNextMax(s *suite) {
	want, before := s.story(pod("ns", "a"))
	w := s.watch(resources.WatchOptions{Resource: "pods", After: before})
	for i := range want {
		events, revision, err := w.Next(s.ctx, 1)
		if err != nil || len(events) != 1 {
			s.Fatalf("next returned %d events, %v", len(events), err)
		}
		s.want("event", want[i], s.describeEvent(events[0]))
		s.want("cursor", before+int64(i)+1, revision)
	}
}

// Ready receives a value whenever Next may have more to return than when it was last called.
func testReadyThenNext(s *suite) {
	w := s.watch(resources.WatchOptions{Resource: "pods", After: s.snapshot("pods", current).Revision()})
	s.quiet(w)
	for i := range 5 {
		made := s.commitOne(create(pod("ns", fmt.Sprint(i)), "x"))
		select {
		case <-w.Ready():
		case <-s.ctx.Done():
			s.Fatal("an event was committed and the watch is not ready")
		}
		s.want("event", []string{"create " + s.describe(made)}, s.events(w, 1))
	}
}

// Wake is called whenever Ready would receive a value, which it then never does.
func testWakeThenNext(s *suite) {
	before := s.commitOne(create(pod("ns", "before"), "x"))
	woken := make(chan struct{}, 100)
	w := s.watch(resources.WatchOptions{Resource: "pods", After: before.Revision - 1, Wake: func() { woken <- struct{}{} }})
	made := before
	for i := range 5 {
		select {
		case <-woken:
		case <-w.Ready():
			s.Fatal("a watch with Wake became ready")
		case <-s.ctx.Done():
			s.Fatal("an event was committed and Wake was not called")
		}
		s.want("event", []string{"create " + s.describe(made)}, s.events(w, 1))
		made = s.commitOne(create(pod("ns", fmt.Sprint(i)), "x"))
	}
}

// For the writes of a Commit, Wake is called on every watch that matches them before the Commit returns: a goroutine that follows
// many types then knows that no older event is still to come when one of them has a new one.
func testWakeBeforeAnswer(s *suite) {
	start := s.snapshot("pods", current).Revision()
	woken := map[string]*atomic.Int64{}
	for _, resource := range []string{"pods", "secrets"} {
		calls := &atomic.Int64{}
		woken[resource] = calls
		s.watch(resources.WatchOptions{Resource: resource, After: start, Wake: func() { calls.Add(1) }})
	}
	for i := range 3000 { // others, so that a late call would be visible
		s.watch(resources.WatchOptions{Resource: "pods", Namespace: []string{"ns", ""}[i%2], After: start})
	}
	s.commit(create(pod("ns", "a"), "x"), create(resources.Key{Resource: "secrets", Namespace: "ns", Name: "a"}, "x"))
	for resource, calls := range woken {
		s.want("calls of Wake for "+resource, int64(1), calls.Load())
	}
}

// An event is encoded once and shared by all its watchers.
func testEventsAreShared(s *suite) {
	start := s.snapshot("pods", current).Revision()
	one := s.watch(resources.WatchOptions{Resource: "pods", After: start})
	two := s.watch(resources.WatchOptions{Resource: "pods", Namespace: "ns", After: start})
	made := s.commitOne(create(pod("ns", "a"), "x"))
	a, _, err1 := one.Next(s.ctx, 10)
	b, _, err2 := two.Next(s.ctx, 10)
	if err1 != nil || err2 != nil || len(a) != 1 || len(b) != 1 {
		s.Fatalf("got %d and %d events, %v, %v", len(a), len(b), err1, err2)
	}
	if a[0] != b[0] || a[0].Object != made {
		s.Error("the watchers got copies")
	}
}

// An object that stops matching is DELETED for a watcher with a selector, one that starts is ADDED: an event has the labels and
// fields of before and after, wherever it is read from.
func testSelectorTransition(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "blue"))
	b := s.commitOne(update(a, "green"))
	s.commitOne(remove(b))
	for _, what := range []string{"from memory", "from the database"} {
		w := s.watch(resources.WatchOptions{Resource: "pods", After: a.Revision})
		events, _, err := w.Next(s.ctx, 10)
		if err != nil || len(events) != 2 {
			s.Fatalf("%s: %d events, %v", what, len(events), err)
		}
		for i, e := range events {
			from, to := []string{"blue", "green"}[i], "green"
			s.want(what+", state before", from, s.stateOf(e.Prev))
			s.want(what+", state after", to, s.stateOf(e.Object))
			s.want(what+", revision before", a.Revision+int64(i), e.Prev.Revision)
		}
		s.store = s.h.Restart(s.T)
	}
}

// Close releases the cursor.
func testClosedWatchIsQuiet(s *suite) {
	w := s.watch(resources.WatchOptions{Resource: "pods", After: s.snapshot("pods", current).Revision()})
	w.Close()
	w.Close() // twice is fine
	s.commitOne(create(pod("ns", "a"), "x"))
	_, _, err := w.Next(s.ctx, 10)
	s.wantError("next of a closed watch", resources.ErrClosed, err)
}

// Errors of Next: the context's.
func testWatchWithGoneContext(s *suite) {
	_, before := s.story(pod("ns", "a"))
	w := s.watch(resources.WatchOptions{Resource: "pods", After: before})
	ctx, cancel := cancelled(s.ctx)
	defer cancel()
	_, _, err := w.Next(ctx, 10)
	s.wantError("next", ctx.Err(), err)
	s.want("cursor after the failed call and another", 3, len(s.events(w, 3)))
}

// A watcher that falls behind reads from memory, then from history, and misses nothing.
func testWatchThroughHistory(s *suite) {
	start := s.snapshot("pods", current).Revision()
	slow := s.watch(resources.WatchOptions{Resource: "pods", After: start})
	scoped := s.watch(resources.WatchOptions{Resource: "pods", Namespace: "odd", After: start})
	want, wantScoped := []string{}, []string{}
	for i := range 1000 {
		key := pod([]string{"even", "odd"}[i%2], fmt.Sprint(i))
		e := "create " + s.describe(s.commitOne(create(key, "x")))
		want = append(want, e)
		if i%2 == 1 {
			wantScoped = append(wantScoped, e)
		}
	}
	s.want("events of the slow watcher", want, s.events(slow, 1000))
	s.want("events of the slow watcher of a namespace", wantScoped, s.events(scoped, 500))
	s.want("cursor", start+1000, s.quiet(slow))
	s.want("cursor", start+1000, s.quiet(scoped))
}

// A cursor without events of its own passes over the events of others.
func testQuietWatchOverHistory(s *suite) {
	start := s.snapshot("pods", current).Revision()
	w := s.watch(resources.WatchOptions{Resource: "pods", Namespace: "quiet", After: start})
	s.quiet(w)
	for i := range 500 {
		s.commitOne(create(pod("loud", fmt.Sprint(i)), "x"))
	}
	want, _ := s.story(pod("quiet", "a"))
	for i := range 500 {
		s.commitOne(create(pod("louder", fmt.Sprint(i)), "x"))
	}
	s.want("events", want, s.events(w, 3))
	s.want("cursor", start+1003, s.quiet(w))
}

// A watcher sees every change of an object, not only the last.
func testManyChangesOfOneObject(s *suite) {
	o := s.commitOne(create(pod("ns", "a"), "0"))
	w := s.watch(resources.WatchOptions{Resource: "pods", Namespace: "ns", Name: "a", After: o.Revision})
	want := []string{}
	for i := range 300 {
		next := s.commitOne(update(o, fmt.Sprint(i)))
		want = append(want, "update "+s.describe(next)+" from "+s.describe(o))
		o = next
	}
	s.want("events", want, s.events(w, 300))
}
