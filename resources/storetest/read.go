package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/rowlock/rowlock/resources"
)

var readTests = map[string]func(*suite){
	"EmptyType":          testEmptyType,
	"SnapshotIsFixed":    testSnapshotIsFixed,
	"OrderAndCount":      testOrderAndCount,
	"AscendStops":        testAscendStops,
	"NotOlderThanWaits":  testNotOlderThanWaits,
	"FutureRevision":     testFutureRevision,
	"WaitEndsWithCaller": testWaitEndsWithCaller,
	"Amount":             testAmount,
}

// A resource that was never written is empty, not an error.
func testEmptyType(s *suite) {
	made := s.commitOne(create(pod("ns", "a"), "x"))
	for _, at := range []resources.At{current, any_, exactly(made.Revision), {Match: resources.NotOlderThan, Revision: made.Revision}} {
		snap := s.snapshot("widgets.example.com", at)
		s.want("contents", []string{}, s.contents(snap))
		s.want("count", 0, snap.Count("", "")+snap.Count("ns", "")+snap.Count("", "ns/a"))
		s.want("revision", made.Revision, snap.Revision())
		if snap.Get("ns", "a") != nil {
			s.Error("an object out of nothing")
		}
	}
}

// Amount returns the number and the size of the objects of a resource type.
func testAmount(s *suite) {
	s.want("of nothing", resources.Amount{}, s.store.Amount("pods"))
	bytes := 0
	for i := range 3 {
		bytes += len(s.commitOne(create(pod("ns", fmt.Sprint("a", i)), strings.Repeat("x", 100*i))).Data)
	}
	s.commitOne(create(resources.Key{Resource: "widgets.example.com", Namespace: "ns", Name: "w"}, strings.Repeat("x", 10000)))
	s.want("of pods", resources.Amount{Objects: 3, AverageBytes: int64(bytes / 3)}, s.store.Amount("pods"))
	s.want("after a restart", resources.Amount{Objects: 3, AverageBytes: int64(bytes / 3)}, s.h.Restart(s.T).Amount("pods"))
}

// Snapshot is a consistent, immutable view.
func testSnapshotIsFixed(s *suite) {
	a := s.commitOne(create(pod("ns", "a"), "a"))
	b := s.commitOne(create(pod("ns", "b"), "b"))
	snap := s.snapshot("pods", current)
	want := s.contents(snap)
	s.commit(update(a, "changed"), remove(b), create(pod("ns", "c"), "c"))
	s.want("contents of the old snapshot", want, s.contents(snap))
	s.want("its revision", b.Revision, snap.Revision())
	s.want("its count", 2, snap.Count("", ""))
	s.want("its object", s.describe(a), s.describe(snap.Get("ns", "a")))
}

// Order is that of Key.Path, bytewise. Ascend yields the objects of a namespace whose path is greater than after; Count
// returns how many objects that is.
func testOrderAndCount(s *suite) {
	paths := []string{"a-b/x", "a.b/x", "a/x", "a/x-1", "a/x.1", "a/y", "a/z", "a0/x", "ab/x", "b/a", "b/aa", "b/b"}
	for i := range paths { // written in another order
		namespace, name := resources.SplitPath(paths[(i*5)%len(paths)])
		s.commitOne(create(pod(namespace, name), "x"))
	}
	snap := s.snapshot("pods", current)
	afters := []string{"", "a", "a/", "a/x", "a/x-", "a/zz", "b", "b/b", "c"}
	for _, namespace := range []string{"", "a", "a-b", "a0", "b", "c"} {
		for _, after := range afters {
			want := []string{}
			for _, p := range paths {
				if p > after && (namespace == "" || strings.HasPrefix(p, namespace+"/")) {
					want = append(want, p)
				}
			}
			got := []string{}
			snap.Ascend(namespace, after, func(o *resources.Object) bool {
				got = append(got, o.Path())
				return true
			})
			what := fmt.Sprintf("in namespace %q after %q", namespace, after)
			s.want(what, want, got)
			s.want("count "+what, len(want), snap.Count(namespace, after))
		}
	}
}

// Ascend goes on until yield returns false.
func testAscendStops(s *suite) {
	for _, name := range []string{"a", "b", "c"} {
		s.commitOne(create(node(name), "x"))
	}
	got := []string{}
	s.snapshot("nodes", current).Ascend("", "", func(o *resources.Object) bool {
		got = append(got, o.Name)
		return len(got) < 2
	})
	s.want("nodes", []string{"a", "b"}, got)
}

// NotOlderThan reads state at least as new as a revision, and waits a little for it to come into being.
func testNotOlderThanWaits(s *suite) {
	next := s.snapshot("pods", current).Revision() + 1
	at := resources.At{Match: resources.NotOlderThan, Revision: next}
	result := make(chan error, 2)
	go func() {
		_, err := s.store.Get(s.ctx, pod("ns", "a"), at)
		result <- err
	}()
	go func() {
		snap, err := s.store.Snapshot(s.ctx, "pods", at)
		if err == nil && snap.Count("", "") != 1 {
			err = errors.New("the snapshot does not have the object")
		}
		result <- err
	}()
	s.commitOne(create(pod("ns", "a"), "x"))
	for range 2 {
		if err := <-result; err != nil {
			s.Errorf("read of a revision that was to come: %v", err)
		}
	}
}

// *FutureRevisionError: at.Revision did not come into being within a short wait.
func testFutureRevision(s *suite) {
	made := s.commitOne(create(pod("ns", "a"), "x"))
	for _, match := range []resources.Match{resources.NotOlderThan, resources.Exact} {
		at := resources.At{Match: match, Revision: made.Revision + 1000}
		result := make(chan error, 1)
		go func() {
			_, err := s.store.Snapshot(s.ctx, "pods", at)
			result <- err
		}()
		err := s.waitAdvancing(result)
		var future *resources.FutureRevisionError
		if !errors.As(err, &future) {
			s.Fatalf("got %v, want a FutureRevisionError", err)
		}
		s.want("error", resources.FutureRevisionError{Requested: made.Revision + 1000, Current: made.Revision}, *future)
	}
}

// waitAdvancing waits for a result while time passes.
func (s *suite) waitAdvancing(result <-chan error) error {
	for {
		select {
		case err := <-result:
			return err
		case <-s.ctx.Done():
			s.Fatal("no answer, whatever the clock said")
		default:
			s.h.Advance(100 * time.Millisecond)
			runtime.Gosched()
		}
	}
}

// Errors: the context's.
func testWaitEndsWithCaller(s *suite) {
	ctx, cancel := cancelled(s.ctx)
	defer cancel()
	_, err := s.store.Snapshot(ctx, "pods", resources.At{Match: resources.NotOlderThan, Revision: 1 << 40})
	s.wantError("read by somebody who has gone", ctx.Err(), err)
}
