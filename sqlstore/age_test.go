package sqlstore

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources/storetest"
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
