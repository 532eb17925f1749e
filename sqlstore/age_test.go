package sqlstore

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources/storetest"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// A clock that jumps, forward or back, does not make changes older than they are.
func TestClockJumps(t *testing.T) {
	h := newSQLiteHarness(t)
	h.clock.Step(2 * storetest.HistoryAge) // the store was opened long ago
	start := h.store.revisions.current.Load()
	mustCommit(t, h.store, createMap(t, "a"))
	last := mustCommit(t, h.store, createMap(t, "b"))[0]
	for _, jump := range []string{"at - 3600000", "at + 7200000"} { // what the clock showed was an hour behind, or ahead
		h.store.exec(t, "UPDATE changes SET at = "+jump)
		h.clock.Step(storetest.HistoryAge / 4)
		h.prune(t)
		if floor := h.store.floor.Load(); floor > start {
			t.Errorf("history begins at %d, after changes that are seconds old", floor)
		}
	}
	h.clock.Step(storetest.HistoryAge)
	h.prune(t)
	if floor := h.store.floor.Load(); floor != last.Revision {
		t.Errorf("history begins at %d, want %d: all is old", floor, last.Revision)
	}
}

// Where a clock has jumped, or a store was not closed, what changes say of their time does not make them old when it is opened again.
func TestAgesThatNobodyKnows(t *testing.T) {
	for name, lose := range map[string]func(*sqliteHarness){
		"a clock that jumped": func(h *sqliteHarness) {
			now := h.clock.Now()
			h.store.janitor.ages.compare(now.Add(-time.Hour), now, now, time.Second)
			h.close(t)
		},
		"a store that was killed": func(h *sqliteHarness) {
			h.close(t)
			if _, err := sqltest.Ask(t.Context(), h.options().URL, "", "UPDATE meta SET closed = NULL"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSQLiteHarness(t)
			first := mustCommit(t, h.store, createMap(t, "a"))[0].Revision
			h.store.exec(t, "UPDATE changes SET at = at - 1000000000") // what the clock showed before
			last := mustCommit(t, h.store, createMap(t, "b"))[0].Revision
			lose(h)
			h.open(t)
			h.clock.Step(storetest.HistoryAge / 2)
			if h.prune(t); h.store.floor.Load() >= first {
				t.Errorf("history begins at %d, after a change that is seconds old", h.store.floor.Load())
			}
			h.clock.Step(storetest.HistoryAge)
			if h.prune(t); h.store.floor.Load() != last {
				t.Errorf("history begins at %d, want %d: all is old", h.store.floor.Load(), last)
			}
		})
	}
}

// Ages are kept for as many times as history needs, however many changes there are.
func TestAgesAreFew(t *testing.T) {
	h := newSQLiteHarness(t)
	j := h.store.janitor
	now := h.clock.Now()
	for r := range int64(10_000) {
		j.noteAge(10+r, now)
		now = now.Add(storetest.HistoryAge / 10_000)
	}
	if n := len(j.ages.marks); n > 66 {
		t.Errorf("%d marks", n)
	}
	for _, r := range []int64{10, 5_000, 10_009} {
		made := h.clock.Now().Add(storetest.HistoryAge / 10_000 * (time.Duration(r) - 10))
		if at, known := j.ages.of(r, now); !known || at.Before(made) || at.Sub(made) > j.slack() {
			t.Errorf("revision %d was made at %v, and counts from %v (%v)", r, made, at, known)
		}
	}
}
