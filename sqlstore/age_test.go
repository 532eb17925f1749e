package sqlstore

import (
	"database/sql"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources/storetest"
)

// A clock that jumps, forward or back, does not make changes older than they are.
func TestClockJumps(t *testing.T) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		h.clock.Step(2 * storetest.HistoryAge) // the store was opened long ago
		start := h.store.revisions.current.Load()
		mustCommit(t, h.store, createMap(t, "a"))
		last := mustCommit(t, h.store, createMap(t, "b"))[0]
		for _, jump := range []string{"at - 3600000", "at + 7200000"} { // the clock was an hour behind, or ahead
			// Of the last change, a server on Postgres remembers the time: with another one the database counts as restored.
			h.store.exec(t, fmt.Sprintf("UPDATE changes SET at = %s WHERE revision < %d", jump, last.Revision))
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
	})
}

// After a clock jump, or without a close, the commit times of changes do not make them old when the store is opened
// again.
func TestAgesDoNotGoByTheClock(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *eitherHarness){
		"a store that was closed": func(t *testing.T, h *eitherHarness) { h.close(t) },
		"a store that was killed": func(t *testing.T, h *eitherHarness) { h.kill(t) },
		"a note that is none": func(t *testing.T, h *eitherHarness) {
			h.store.exec(t, `UPDATE meta SET ages = '[[1, 900000000], [9000000000000, 900000000]]'`)
			h.kill(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, h *eitherHarness) {
				first := mustCommit(t, h.store, createMap(t, "a"))[0].Revision
				last := mustCommit(t, h.store, createMap(t, "b"))[0].Revision
				// A commit time by an earlier clock; a server on Postgres knows that of the last change.
				h.store.exec(t, fmt.Sprint("UPDATE changes SET at = at - 1000000000 WHERE revision = ", first))
				lose(t, h)
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
		})
	}
}

// A pause before a write ages the earlier changes no more than a pause after the last write does.
func TestPauseBeforeAWrite(t *testing.T) {
	pauses := func(t *testing.T, clock interface{ Step(time.Duration) }, restart func(closed func()) *Store, prune func(*testing.T)) {
		s := restart(func() {})
		first := mustCommit(t, s, createMap(t, "a"))[0].Revision
		clock.Step(storetest.HistoryAge / 5)
		s = restart(func() { clock.Step(100 * storetest.HistoryAge) })
		last := mustCommit(t, s, createMap(t, "b"))[0].Revision
		clock.Step(storetest.HistoryAge / 5)
		s = restart(func() {})
		if prune(t); s.floor.Load() >= first {
			t.Errorf("history begins at %d, after two fifths of its age; the first change is %d", s.floor.Load(), first)
		}
		clock.Step(storetest.HistoryAge * 7 / 10)
		if prune(t); s.floor.Load() < first || s.floor.Load() >= last {
			t.Errorf("history begins at %d, where of %d and %d the first alone is old", s.floor.Load(), first, last)
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		pauses(t, h.clock, func(closed func()) *Store {
			h.close(t)
			closed()
			return h.open(t)
		}, h.prune)
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		pauses(t, h.clock, func(closed func()) *Store {
			h.close(t)
			closed()
			h.store = h.open(t)
			return h.store
		}, h.prune)
	})
}

// A server that is always killed before history reaches its maximum age still prunes by age, and does not count changes
// as older than they are.
func TestAgeGoesOnAcrossKills(t *testing.T) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		var made []int64
		for i := range 12 {
			h.kill(t)
			h.open(t)
			made = append(made, mustCommit(t, h.store, createMap(t, strconv.Itoa(i)))[0].Revision)
			lived := storetest.HistoryAge / 4
			h.clock.Step(lived)
			if _, err := h.store.janitor.note(); err != nil {
				t.Fatal(err)
			}
			h.prune(t)
			for n, revision := range made {
				age := lived * time.Duration(len(made)-n)
				if pruned := h.store.floor.Load() >= revision; pruned != (age >= storetest.HistoryAge) {
					t.Errorf("life %d: a change of %v is pruned: %v", i, age, pruned)
				}
			}
		}
	})
}

// The ages of history are noted automatically while there is history.
func TestAgesAreNoted(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "a"))
	for minute := int64(1); minute <= 3; minute++ {
		h.clock.Step(time.Minute)
		want := fmt.Sprintf("[[%d,%d]]", h.store.revisions.current.Load(), minute*60_000)
		var noted sql.NullString
		for deadline := time.Now().Add(20 * time.Second); noted.String != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("noted is %q, want %s", noted.String, want)
			}
			if err := h.store.db.reads.QueryRow("SELECT ages FROM meta").Scan(&noted); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The number of noted ages is bounded by the needs of history, however many changes there are.
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
		if at := j.ages.of(r, now); at.Before(made) || at.Sub(made) > j.slack() {
			t.Errorf("revision %d was made at %v, and counts from %v", r, made, at)
		}
	}
}
