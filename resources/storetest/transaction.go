package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/rowlock/rowlock/resources"
)

var transactionTests = map[string]func(*suite){
	"AllOrNothing":         testAllOrNothing,
	"WritesOfOneObject":    testWritesOfOneObject,
	"FromEarlierWrites":    testFromEarlierWrites,
	"NeighboursUnaffected": testNeighboursUnaffected,
	"RevisionOrder":        testRevisionOrder,
	"Contention":           testContention,
	"RefusalsAreVisible":   testRefusalsAreVisible,
	"CancelledInTheMiddle": testCancelledInTheMiddle,
	"LargeCommit":          testLargeCommit,
	"TransactionInEvents":  testTransactionInEvents,
}

// The state that causes a refusal is visible to every read at MostRecent that starts after Commit returned, also when it was written at the same
// time.
func testRefusalsAreVisible(s *suite) {
	const writers = 8
	compete := func(w resources.Write, refused func(err error, now *resources.Object)) *resources.Object {
		var all sync.WaitGroup
		var winner *resources.Object
		for range writers {
			all.Go(func() {
				done, err := s.store.Commit(s.ctx, w)
				if err == nil {
					winner = done[0]
					return
				}
				now, gerr := s.store.Get(s.ctx, w.Key, current)
				if gerr != nil && !errors.Is(gerr, resources.ErrNotFound) {
					s.Errorf("get: %v", gerr)
				}
				refused(err, now)
			})
		}
		all.Wait()
		if winner == nil {
			s.Fatal("nobody could write")
		}
		return winner
	}
	for range 50 {
		made := compete(create(pod("ns", "a"), "new"), func(err error, now *resources.Object) {
			if !errors.Is(err, resources.ErrExists) || now == nil {
				s.Errorf("create: %v, and there is %v", err, now)
			}
		})
		changed := compete(update(made, "changed"), func(err error, now *resources.Object) {
			var conflict *resources.ConflictError
			if !errors.As(err, &conflict) || now == nil || now.Revision != conflict.Current.Revision {
				s.Errorf("update: %v, and there is %v", err, now)
			}
		})
		compete(remove(changed), func(err error, now *resources.Object) {
			if !errors.Is(err, resources.ErrNotFound) || now != nil {
				s.Errorf("delete: %v, and there is %v", err, now)
			}
		})
	}
}

// cancelled returns a context that has ended.
func cancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, cancel
}

// Commit applies all writes in one transaction, or none.
func testAllOrNothing(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "a"))
	before := s.snapshot("pods", current)
	for name, bad := range map[string]resources.Write{
		"exists":   create(a.Key, "again"),
		"missing":  update(&resources.Object{Key: pod("ns", "ghost"), Revision: 1}, "x"),
		"conflict": {Op: resources.Delete, Key: a.Key, From: a.Revision - 1},
	} {
		if _, err := s.store.Commit(s.ctx, create(pod("ns", "b"), "b"), update(a, "changed"), create(node("n"), "n"), bad); err == nil {
			s.Fatalf("commit with a write that fails (%s) succeeded", name)
		}
		now := s.snapshot("pods", current)
		s.want("pods after "+name, s.contents(before), s.contents(now))
		s.want("revision after "+name, before.Revision(), now.Revision())
		s.want("nodes after "+name, []string{}, s.contents(s.snapshot("nodes", current)))
	}
	done := s.commit(create(pod("ns", "b"), "b"), update(a, "changed"), create(node("n"), "n"))
	for i, o := range done {
		s.want("revision", before.Revision()+int64(i)+1, o.Revision)
	}
	s.want("pods", []string{s.describe(done[1]), s.describe(done[0])}, s.contents(s.snapshot("pods", current)))
}

// Result i is the object that write i stored, also when one Commit writes an object more than once: each write is checked against the result of
// the ones before it.
func testWritesOfOneObject(s *suite) {
	key := pod("ns", "a")
	at := s.snapshot("pods", current).Revision()
	done := s.commit(create(key, "one"),
		update(&resources.Object{Key: key, Revision: at + 1}, "two"),
		remove(&resources.Object{Key: key, Revision: at + 2}),
		create(key, "three"))
	s.want("last write", fmt.Sprintf("ns/a=three@%d", at+4), s.describe(done[3]))
	w := s.watch(resources.WatchOptions{Resource: "pods", After: at})
	s.want("events", []string{
		fmt.Sprintf("create ns/a=one@%d", at+1),
		fmt.Sprintf("update ns/a=two@%d from ns/a=one@%d", at+2, at+1),
		fmt.Sprintf("delete ns/a=two@%d from ns/a=two@%d", at+3, at+2),
		fmt.Sprintf("create ns/a=three@%d", at+4),
	}, s.events(w, 4))
	s.store = s.h.Restart(s.T)
	s.want("pods after a restart", []string{s.describe(done[3])}, s.contents(s.snapshot("pods", current)))
}

// FromEarlier is the revision that an earlier write of the same Commit gives the object: no other write can come in between, and the revision
// that the first write was computed from decides about both.
func testFromEarlierWrites(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "a"))
	earlier := func(w resources.Write) resources.Write {
		w.From = resources.FromEarlier
		return w
	}
	w := s.watch(resources.WatchOptions{Resource: "pods", After: a.Revision})
	done := s.commit(update(a, "marked"), create(node("n"), "n"), earlier(update(a, "again")), earlier(remove(a)))
	at := a.Revision
	s.want("last state", fmt.Sprintf("ns/a=again@%d", at+4), s.describe(done[3]))
	s.want("events", []string{
		fmt.Sprintf("update ns/a=marked@%d from ns/a=a@%d", at+1, at),
		fmt.Sprintf("update ns/a=again@%d from ns/a=marked@%d", at+3, at+1),
		fmt.Sprintf("delete ns/a=again@%d from ns/a=again@%d", at+4, at+3),
	}, s.events(w, 3))
	s.want("pods", []string{}, s.contents(s.snapshot("pods", current)))

	b := s.commitOne(create(pod("ns", "b"), "b"))
	changed := s.commitOne(update(b, "changed"))
	before := s.snapshot("pods", current)
	var conflict *resources.ConflictError
	if _, err := s.store.Commit(s.ctx, update(b, "marked"), earlier(remove(b))); !errors.As(err, &conflict) || conflict.Current.Revision != changed.Revision {
		s.Errorf("commit of writes that were computed from what has changed: %v", err)
	}
	for name, writes := range map[string][]resources.Write{
		"alone":            {earlier(remove(b))},
		"of another":       {create(pod("ns", "c"), "c"), earlier(remove(b))},
		"before the write": {earlier(remove(b)), update(changed, "x")},
		"after a delete":   {remove(changed), earlier(update(b, "x"))},
	} {
		_, err := s.store.Commit(s.ctx, writes...)
		s.wantError("commit from an earlier write, "+name, resources.ErrRefused, err)
	}
	s.want("revision", before.Revision(), s.snapshot("pods", current).Revision())
	s.store = s.h.Restart(s.T)
	s.want("pods after a restart", []string{s.describe(changed)}, s.contents(s.snapshot("pods", current)))
}

// A failed precondition fails only its own request.
func testNeighboursUnaffected(s *suite) {
	taken := s.commitOne(create(pod("ns", "taken"), "x"))
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if i%2 == 0 {
				_, err := s.store.Commit(s.ctx, create(pod("ns", strconv.Itoa(i)), "x"))
				s.wantError("commit that has to succeed", nil, err)
				return
			}
			_, err := s.store.Commit(s.ctx, create(pod("ns", strconv.Itoa(i)), "x"), create(taken.Key, "x"))
			s.wantError("commit that has to fail", resources.ErrExists, err)
		})
	}
	wg.Wait()
	s.want("number of pods", 101, s.snapshot("pods", current).Count("", ""))
}

// Revision order is commit order is event order, without gaps.
func testRevisionOrder(s *suite) {
	const writers, rounds = 64, 20
	start := s.snapshot("pods", current).Revision()
	watches := map[string]resources.Watch{}
	for _, resource := range []string{"pods", "nodes"} {
		watches[resource] = s.watch(resources.WatchOptions{Resource: resource, After: start})
	}
	var mu sync.Mutex
	written := map[int64]string{} // by revision
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			last := int64(0)
			var o *resources.Object
			for round := range rounds {
				w := s.someWrite(i, round, o)
				objects, err := s.store.Commit(s.ctx, w)
				if err != nil {
					s.Errorf("commit: %v", err)
					return
				}
				o = objects[0]
				if o.Revision <= last {
					s.Errorf("a writer got revision %d after %d", o.Revision, last)
				}
				last = o.Revision
				mu.Lock()
				written[o.Revision] = o.Key.String()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	seen := map[int64]string{}
	for resource, w := range watches {
		last := start
		for n := 0; n < writers*rounds/2; {
			events, _, err := w.Next(s.ctx, 100)
			if err != nil || len(events) == 0 {
				s.Fatalf("%s: %d events came, then %v", resource, n, err)
			}
			for _, e := range events {
				if e.Revision <= last {
					s.Fatalf("%s: event %d came after %d", resource, e.Revision, last)
				}
				last = e.Revision
				seen[e.Revision] = e.Object.Key.String()
			}
			n += len(events)
		}
	}
	s.want("what was written and what was seen, by revision", written, seen)
	for r := start + 1; r <= start+writers*rounds; r++ {
		if _, ok := seen[r]; !ok {
			s.Fatalf("no event has revision %d", r)
		}
	}
}

// someWrite is the write of one round of testRevisionOrder: create, update, delete, in turns.
func (s *suite) someWrite(writer, round int, o *resources.Object) resources.Write {
	key := pod("ns", strconv.Itoa(writer))
	if writer%2 == 0 {
		key = node(strconv.Itoa(writer))
	}
	switch round % 4 {
	case 0:
		return create(key, "created")
	case 3:
		return remove(o)
	}
	return update(o, strconv.Itoa(round))
}

// GuaranteedUpdate computes the change again until no other writer comes in between: no update is lost.
func testContention(s *suite) {
	const writers, rounds = 16, 10
	key := pod("ns", "counter")
	s.commitOne(create(key, "0"))
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				_, err := resources.GuaranteedUpdate(s.ctx, s.store, key, func(o *resources.Object) ([]resources.Write, error) {
					n, err := strconv.Atoi(s.stateOf(o))
					return []resources.Write{update(o, strconv.Itoa(n+1))}, err
				})
				if err != nil {
					s.Errorf("guaranteed update: %v", err)
				}
			}
		})
	}
	wg.Wait()
	s.want("count", strconv.Itoa(writers*rounds), s.stateOf(s.snapshot("pods", current).Get("ns", "counter")))
}

// The context's error: as ErrUnknownOutcome. A request that is cancelled does not affect the others in its batch, and a written transaction is
// complete.
func testCancelledInTheMiddle(s *suite) {
	const writers = 100
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			if i%2 == 0 {
				go cancel()
			}
			name := strconv.Itoa(i)
			_, err := s.store.Commit(ctx, create(pod("ns", name), "x"), create(node(name), "x"))
			if i%2 == 1 || !errors.Is(err, context.Canceled) {
				s.wantError("commit", nil, err)
			}
		})
	}
	wg.Wait()
	s.commitOne(create(pod("ns", "end"), "x")) // the queue is then empty
	pods, nodes := s.snapshot("pods", current), s.snapshot("nodes", current)
	for i := range writers {
		name := strconv.Itoa(i)
		p, n := pods.Get("ns", name), nodes.Get("", name)
		if (p == nil) != (n == nil) {
			s.Errorf("of the two writes of %s only one is there", name)
		}
		if i%2 == 1 && p == nil {
			s.Errorf("%s is not there", name)
		}
	}
}

// Commit applies all writes in one transaction, however many they are.
func testLargeCommit(s *suite) {
	writes := make([]resources.Write, 2000)
	for i := range writes {
		writes[i] = create(pod("ns", fmt.Sprintf("%04d", i)), "x")
	}
	made := s.commit(writes...)
	s.want("pods", 2000, s.snapshot("pods", exactly(made[1999].Revision)).Count("ns", ""))
	s.want("pods in the middle", 1000, s.snapshot("pods", exactly(made[999].Revision)).Count("ns", ""))
}

// Nothing is visible before it is committed; a read sees a transaction of several types as a whole or not at all, once it has seen one of its
// events.
func testTransactionInEvents(s *suite) {
	start := s.snapshot("pods", current).Revision()
	w := s.watch(resources.WatchOptions{Resource: "pods", After: start})
	const rounds = 300
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range rounds {
			name := strconv.Itoa(i)
			if _, err := s.store.Commit(s.ctx, create(pod("ns", name), "x"), create(node(name), "x")); err != nil {
				s.Errorf("commit: %v", err)
				return
			}
		}
	})
	for n := 0; n < rounds; {
		events, _, err := w.Next(s.ctx, 10)
		if err != nil {
			s.Fatalf("next: %v", err)
		}
		for _, e := range events {
			if _, err := s.store.Get(s.ctx, node(e.Object.Name), any_); err != nil {
				s.Errorf("the pod %s is seen and the node of its transaction is not: %v", e.Object.Name, err)
			}
		}
		if n += len(events); len(events) == 0 {
			select {
			case <-w.Ready():
			case <-s.ctx.Done():
				s.Fatal("the events did not come")
			}
		}
	}
	wg.Wait()
}
