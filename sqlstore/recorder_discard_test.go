package sqlstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

// A server without an object history removes the former one, once the log was pruned beyond it; a command does not.
func TestObjectHistoryIsDiscarded(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, clock interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: 30 * 24 * time.Hour, SecretValues: true})
		const kept = forgetSteps*forgetStep + 1
		for i := range kept {
			mustCommit(t, s, object(t, "secrets", "shop", fmt.Sprint("s", i), fmt.Sprint("u", i), `"stringData":{"p":"`+recordedMarker+`"}`))
		}
		historyOf(t, s, resources.RevisionQuery{})
		for _, o := range []ObjectHistory{{Discard: true}, {}} { // the history might be the one of another server; and a command removes nothing
			s = open(o)
			if !o.Discard {
				mustCommit(t, s, createMap(t, "later"))
				clock.Step(2 * storetest.HistoryAge)
				if _, err := s.janitor.prune(); err != nil {
					t.Fatal(err)
				}
			}
			s.recordNow(t)
			clock.Step(s.recorder.discardAfter())
			s.recordNow(t)
			s.wantRevisions(t, kept)
		}
		s = open(ObjectHistory{Discard: true})
		s.recordNow(t)
		s.wantRevisions(t, kept)
		clock.Step(s.recorder.discardAfter())
		for range 2 {
			s.recordNow(t)
			s.wantCounted(t)
		}
		s.wantRevisions(t, 0)
		s = open(ObjectHistory{Age: time.Hour})
		mustCommit(t, s, createMap(t, "anew"))
		wantHistoryOf(t, s, resources.RevisionQuery{}, "create configmaps/default/anew   []")
	})
}

// wantRevisions checks how many writes the object history has.
func (s *Store) wantRevisions(t *testing.T, want int) {
	t.Helper()
	var got int
	if err := s.db.each(t.Context(), func(scan func(...any) error) error { return scan(&got) }, "SELECT count(*) FROM revisions"); err != nil || got != want {
		t.Errorf("%d writes are kept, want %d: %v", got, want, err)
	}
}

// A server without an object history leaves the one of another server alone, whether that has something to keep or not.
func TestObjectHistoryOfAnotherServerIsNotDiscarded(t *testing.T) {
	h := newPostgresHarness(t)
	h.close(t)
	open := func(o ObjectHistory) *Store {
		options := h.options()
		options.limits, options.ObjectHistory = patientLimits(), o
		s, err := Open(context.Background(), options)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	h.store, h.reader = open(ObjectHistory{Age: 30 * 24 * time.Hour}), open(ObjectHistory{Discard: true})
	with, without := h.store, h.reader
	mustCommit(t, with, createMap(t, "a"))
	with.recordNow(t)
	for i := range 3 {
		without.recordNow(t)
		mustCommit(t, with, object(t, "events", "shop", fmt.Sprint("e", i), "u", `"x":1`))
		with.recordNow(t)
		h.clock.Step(storetest.HistoryAge / 4)
		with.recordNow(t)
		h.clock.Step(without.recorder.discardAfter())
		if _, err := with.janitor.prune(); err != nil {
			t.Fatal(err)
		}
		without.recordNow(t)
		without.wantRevisions(t, 1)
	}
	mustCommit(t, with, createMap(t, "b"))
	with.recordNow(t)
	with.recorder.mu.Lock() // it has fallen behind: the log is pruned before it records
	defer with.recorder.mu.Unlock()
	mustCommit(t, with, createMap(t, "c"))
	h.clock.Step(without.recorder.discardAfter())
	if _, err := with.janitor.prune(); err != nil {
		t.Fatal(err)
	}
	without.recordNow(t)
	without.wantRevisions(t, 2)
}
