package storetest

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

var expectTests = map[string]func(*suite){
	"Expect":                 testExpect,
	"ExpectInVain":           testExpectInVain,
	"ExpectWithoutSense":     testExpectWithoutSense,
	"ExpectIsNoConflict":     testExpectIsNoConflict,
	"ExpectOnEveryServer":    testExpectOnEveryServer,
	"ExpectationsAreVisible": testExpectationsAreVisible,
	"ExpectedWhileItChanges": testExpectedWhileItChanges,
}

func expect(o *resources.Object) resources.Write {
	return resources.Write{Op: resources.Expect, Key: o.Key, From: o.Revision}
}

// servers are the store and, where possible, another server on the same database.
func (s *suite) servers() []resources.Store {
	s.Helper()
	if s.h.Peer == nil {
		return []resources.Store{s.store}
	}
	return []resources.Store{s.store, s.h.Peer(s.T)}
}

// wantUnexpected checks that a Commit failed because of an expectation, and that the error has the object as it is now (nil:
// gone).
func (s *suite) wantUnexpected(what string, key resources.Key, now *resources.Object, err error) {
	s.Helper()
	var unexpected *resources.ExpectationError
	if !errors.As(err, &unexpected) {
		s.Fatalf("%s: got error %v, want an ExpectationError", what, err)
	}
	s.want(what+": key", key, unexpected.Key)
	s.want(what+": current object", s.describe(now), s.describe(unexpected.Current))
	var conflict *resources.ConflictError
	if errors.As(err, &conflict) || errors.Is(err, resources.ErrNotFound) || errors.Is(err, resources.ErrExists) {
		s.Errorf("%s: %v passes for an error of what was to be written", what, err)
	}
}

// Expect writes nothing, takes no revision and makes no event, wherever it stands among the writes. Its result is the expected
// object.
func testExpect(s *suite) {
	rule := s.commitOne(create(node("rule"), "one"))
	rules := s.watch(resources.WatchOptions{Resource: "nodes", After: rule.Revision})
	pods := s.watch(resources.WatchOptions{Resource: "pods", After: rule.Revision})
	done := s.commit(expect(rule), create(pod("ns", "a"), "x"), expect(rule), create(pod("ns", "b"), "x"), expect(rule))
	for _, i := range []int{0, 2, 4} {
		s.want("result of an Expect", s.describe(rule), s.describe(done[i]))
	}
	a, b := done[1], done[3]
	changed := s.commit(update(a, "y"), expect(rule))[0]
	gone := s.commit(expect(rule), remove(b))[1]
	s.want("revisions", []int64{1, 2, 3, 4}, []int64{a.Revision - rule.Revision, b.Revision - rule.Revision,
		changed.Revision - rule.Revision, gone.Revision - rule.Revision})
	s.want("events", []string{"create " + s.describe(a), "create " + s.describe(b), "update " + s.describe(changed) + " from " + s.describe(a),
		"delete " + s.describe(gone) + " from " + s.describe(b)}, s.events(pods, 4))
	s.want("cursor of who watches what is expected", gone.Revision, s.quiet(rules))
	for range 2 {
		for r := rule.Revision; r <= gone.Revision; r++ {
			s.want("what is expected", []string{s.describe(rule)}, s.contents(s.snapshot("nodes", exactly(r))))
		}
		s.want("pods", []string{s.describe(changed)}, s.contents(s.snapshot("pods", current)))
		s.want("revision", gone.Revision, s.snapshot("pods", current).Revision())
		s.store = s.h.Restart(s.T)
	}
}

// *ExpectationError: the object of an Expect is at another revision, or gone. The whole Commit has no effect.
func testExpectInVain(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "a"))
	old := s.commitOne(create(node("changed"), "one"))
	now := s.commitOne(update(old, "two"))
	gone := s.commitOne(create(node("gone"), "x"))
	last := s.commitOne(remove(gone))
	first := s.commitOne(create(node("anew"), "first"))
	s.commitOne(remove(first))
	second := s.commitOne(create(first.Key, "second"))
	ghost := &resources.Object{Key: resources.Key{Resource: "ghosts", Name: "never"}, Revision: 1}
	before, nodes := s.snapshot("pods", current), s.contents(s.snapshot("nodes", current))
	for what, tc := range map[string]struct{ expected, now *resources.Object }{
		"changed":       {old, now},
		"at no time":    {now.At(now.Revision + 1), now},
		"at 0":          {now.At(0), now},
		"gone":          {gone, nil},
		"its deletion":  {last, nil},
		"made anew":     {first, second},
		"never there":   {ghost, nil},
		"there at none": {ghost.At(0), nil},
	} {
		writes := []resources.Write{update(a, "changed"), create(pod("ns", "b"), "b"), expect(second)}
		for i := range len(writes) + 1 {
			_, err := s.store.Commit(s.ctx, slices.Insert(slices.Clone(writes), i, expect(tc.expected))...)
			s.wantUnexpected(what, tc.expected.Key, tc.now, err)
		}
		after := s.snapshot("pods", current)
		s.want("pods after "+what, s.contents(before), s.contents(after))
		s.want("revision after "+what, before.Revision(), after.Revision())
		s.want("nodes after "+what, nodes, s.contents(s.snapshot("nodes", current)))
	}
}

// A Commit that writes an object that it expects is refused with ErrRefused, and so is one of Expects alone.
func testExpectWithoutSense(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "a"))
	rule := s.commitOne(create(node("rule"), "one"))
	ghost := &resources.Object{Key: node("ghost")}
	for what, writes := range map[string][]resources.Write{
		"alone":   {expect(rule)},
		"twice":   {expect(rule), expect(rule)},
		"updated": {update(a, "b"), expect(rule), update(rule, "two")},
		"deleted": {remove(rule), expect(rule), update(a, "b")},
		"created": {expect(ghost), create(ghost.Key, "x")},
	} {
		_, err := s.store.Commit(s.ctx, writes...)
		s.wantError(what, resources.ErrRefused, err)
	}
	s.want("nodes", []string{s.describe(rule)}, s.contents(s.snapshot("nodes", current)))
	s.want("revision", rule.Revision, s.snapshot("pods", current).Revision())
	s.commit(update(a, "b"), expect(rule))
}

// GuaranteedUpdate continues after a conflict of the object while it expects another object, and ends where that expectation
// fails.
func testExpectIsNoConflict(s *suite) {
	key := pod("ns", "a")
	rule := s.commitOne(create(node("rule"), "one"))
	rounds := 0
	step := func(o *resources.Object) ([]resources.Write, error) {
		if rounds++; rounds > 2 {
			return nil, errors.New("once more")
		}
		if o == nil {
			s.commitOne(create(key, "of another"))
			return []resources.Write{create(key, "made"), expect(rule)}, nil
		}
		return []resources.Write{update(o, "changed"), expect(rule)}, nil
	}
	changed, err := resources.GuaranteedUpdate(s.ctx, s.store, key, step)
	if err != nil {
		s.Fatal(err)
	}
	s.want("state", "changed", s.stateOf(changed))
	s.want("rounds", 2, rounds)
	now := s.commitOne(update(rule, "two"))
	rounds = 0
	_, err = resources.GuaranteedUpdate(s.ctx, s.store, key, step)
	s.wantUnexpected("changed", rule.Key, now, err)
	s.want("rounds", 1, rounds)
	s.commitOne(remove(now))
	rounds = 0
	_, err = resources.GuaranteedUpdate(s.ctx, s.store, key, step)
	s.wantUnexpected("gone", rule.Key, nil, err)
	s.want("rounds", 1, rounds)
	s.want("pods", []string{s.describe(changed)}, s.contents(s.snapshot("pods", current)))
}

// An Expect sees all earlier commits, of any server.
func testExpectOnEveryServer(s *suite) {
	servers := s.servers()
	old := s.commitOne(create(node("rule"), "0"))
	for i := range 20 {
		one, other := servers[i%len(servers)], servers[(i+1)%len(servers)]
		done, err := one.Commit(s.ctx, update(old, strconv.Itoa(i)))
		if err != nil {
			s.Fatal(err)
		}
		now := done[0]
		_, err = other.Commit(s.ctx, create(pod("ns", strconv.Itoa(i)), "x"), expect(old))
		s.wantUnexpected("what was before", old.Key, now, err)
		done, err = other.Commit(s.ctx, create(pod("ns", strconv.Itoa(i)), "x"), expect(now))
		s.wantError("what is now", nil, err)
		s.want("revision", now.Revision+1, done[0].Revision)
		old = now
	}
	if _, err := servers[len(servers)-1].Commit(s.ctx, remove(old)); err != nil {
		s.Fatal(err)
	}
	_, err := servers[0].Commit(s.ctx, create(pod("ns", "late"), "x"), expect(old))
	s.wantUnexpected("what is gone", old.Key, nil, err)
	s.want("pods", 20, s.snapshot("pods", current).Count("", ""))
}

// The state that causes an ExpectationError is visible to every read at MostRecent that starts after Commit returned, also when it
// was written at the same time.
func testExpectationsAreVisible(s *suite) {
	const writers = 8
	rule := s.commitOne(create(node("rule"), "0"))
	for round := range 50 {
		expected, change := expect(rule), update(rule, strconv.Itoa(round))
		if round%2 == 1 {
			change = remove(rule)
		}
		var all sync.WaitGroup
		for i := range writers {
			key := pod("ns", strconv.Itoa(round)+"-"+strconv.Itoa(i))
			all.Go(func() {
				var unexpected *resources.ExpectationError
				_, err := s.store.Commit(s.ctx, create(key, "x"), expected)
				if err == nil {
					return
				}
				if !errors.As(err, &unexpected) {
					s.Errorf("create: %v", err)
					return
				}
				now, err := s.store.Get(s.ctx, expected.Key, current)
				switch {
				case unexpected.Current == nil:
					s.wantError("get of what is gone", resources.ErrNotFound, err)
				case err != nil || now.Revision != unexpected.Current.Revision:
					s.Errorf("it is at %d, read is %v: %v", unexpected.Current.Revision, now, err)
				}
				_, err = s.store.Get(s.ctx, key, current)
				s.wantError("get of what was not written", resources.ErrNotFound, err)
			})
		}
		all.Go(func() {
			done, err := s.store.Commit(s.ctx, change)
			if err != nil {
				s.Errorf("change: %v", err)
				return
			}
			rule = done[0]
		})
		all.Wait()
		if change.Op == resources.Delete {
			rule = s.commitOne(create(rule.Key, "anew"))
		}
	}
}

// The Commit takes effect only if the object is at revision From at the Commit's place in the sequence of revisions: however the
// object changes meanwhile, is deleted and created again, and on whatever server, the log has no change beside another state of
// it.
func testExpectedWhileItChanges(s *suite) {
	const writers, rounds = 8, 60
	servers := s.servers()
	start := s.commitOne(create(node("rule"), "0"))
	pods := s.watch(resources.WatchOptions{Resource: "pods", After: start.Revision})
	rules := s.watch(resources.WatchOptions{Resource: "nodes", After: start.Revision - 1})
	written, done := make(chan struct{}, 1), make(chan struct{})
	var succeeded, failed atomic.Int64
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			w := expectingWriter{suite: s, store: servers[i%len(servers)], name: strconv.Itoa(i), rule: start}
			for !s.Failed() {
				if w.write() {
					succeeded.Add(1)
					select {
					case written <- struct{}{}: // the rule changes only after a write by it
					default:
					}
				} else {
					failed.Add(1)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	all.Go(func() {
		defer close(done)
		s.changeAfterEach(written, rounds, start)
	})
	all.Wait()
	if s.Failed() {
		return
	}
	// A writer fails before it learns of a change, and between two failures it lets the rule change at most three times: by a
	// success that was waited for, by one that was noted meanwhile, and by one that was not yet noted.
	if n := failed.Load(); n < rounds/3-writers {
		s.Errorf("only %d of the writes came too late, beside %d changes of the rule", n, rounds)
	}
	end := s.snapshot("pods", current).Revision()
	s.checkExpected(s.eventsUntil(rules, end), s.eventsUntil(pods, end), int(succeeded.Load()))
}

// changeAfterEach changes an object rounds times, each time after a write; every third time it deletes and creates it again.
func (s *suite) changeAfterEach(written <-chan struct{}, rounds int, o *resources.Object) {
	for round := range rounds {
		select {
		case <-written:
		case <-s.ctx.Done():
			s.Errorf("nothing was written after %d changes", round)
			return
		}
		changes := []resources.Write{update(o, "changed")}
		if round%3 == 2 {
			changes = []resources.Write{remove(o), create(o.Key, "anew")}
		}
		for _, w := range changes { // not in one commit: the writer has to find it missing
			stored, err := s.store.Commit(s.ctx, w)
			if err != nil {
				s.Errorf("change: %v", err)
				return
			}
			o = stored[0]
		}
	}
}

// expectingWriter writes an object by a rule that changes, and learns of a change only when it fails.
type expectingWriter struct {
	*suite
	store resources.Store
	name  string
	rule  *resources.Object
	last  *resources.Object // its own object
	turn  int
}

// write stores the revision of the rule in the writer's objects, and reports whether the commit succeeded.
func (w *expectingWriter) write() bool {
	by := strconv.FormatInt(w.rule.Revision, 10)
	own := create(pod("ns", w.name), by)
	if w.last != nil {
		own = update(w.last, by)
	}
	writes := []resources.Write{own, create(pod("more", w.name+"-"+strconv.Itoa(w.turn)), by)}
	writes = slices.Insert(writes, w.turn%(len(writes)+1), expect(w.rule))
	w.turn++
	stored, err := w.store.Commit(w.ctx, writes...)
	var unexpected *resources.ExpectationError
	switch {
	case err == nil:
		for _, o := range stored {
			if o.Key == own.Key {
				w.last = o
			}
		}
		return true
	case !errors.As(err, &unexpected):
		w.Errorf("write by %s: %v", by, err)
	case unexpected.Current != nil:
		w.rule = unexpected.Current
	}
	return false
}

// eventsUntil reads a watch up to an existing revision.
func (s *suite) eventsUntil(w resources.Watch, end int64) (all []*resources.Event) {
	s.Helper()
	for cursor := int64(0); cursor < end; {
		events, at, err := w.Next(s.ctx, 100)
		if err != nil || len(events) == 0 && at < end {
			s.Fatalf("next at %d of %d: %v", at, end, err)
		}
		all, cursor = append(all, events...), at
	}
	return all
}

// checkExpected compares the revision of the rule in each object with the revision that the rule had at that time.
func (s *suite) checkExpected(rules, written []*resources.Event, commits int) {
	s.Helper()
	s.want("writes", 2*commits, len(written))
	was := int64(0)
	for _, e := range written {
		for len(rules) > 0 && rules[0].Revision < e.Revision {
			was = rules[0].Revision
			if rules[0].Op == resources.Delete {
				was = 0
			}
			rules = rules[1:]
		}
		if by := s.stateOf(e.Object); by != strconv.FormatInt(was, 10) {
			s.Errorf("%s was written at revision %d by the rule of %s, which was at %d (0: gone)", e.Object.Key, e.Revision, by, was)
		}
	}
}
