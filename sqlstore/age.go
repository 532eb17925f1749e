package sqlstore

import (
	"sort"
	"sync"
	"time"
)

// ages knows how old changes are by the time that has passed since they were made or heard of, not by what the clock
// showed then: a clock that jumps, as when it is set after a start, makes nothing older. That holds as long as the process
// lives; changes from before have the time in the table alone.
type ages struct {
	mu    sync.Mutex
	first int64 // revision at which the store was opened
	marks []ageMark
	// jumped: a clock has, or that of another server shows another time, so that what changes have in the table does not say how old they are.
	jumped bool
}

// ageMark says that a revision, and with it all before, was there at a time.
type ageMark struct {
	revision int64
	at       time.Time
}

// note takes up that the store has come to a revision. Changes that are made within spacing of each other count as made with
// the last of them. What is at the floor or below is forgotten.
func (a *ages) note(revision, floor int64, now time.Time, spacing time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.marks) > 0 && a.marks[0].revision <= floor {
		a.marks = a.marks[1:]
	}
	if n := len(a.marks); n > 1 && now.Sub(a.marks[n-2].at) < spacing {
		a.marks = a.marks[:n-1]
	}
	a.marks = append(a.marks, ageMark{revision, now})
}

// of returns when a change was there for certain; now, when that was not noted. known is false for one from before the
// store was opened.
func (a *ages) of(revision int64, now time.Time) (at time.Time, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if revision <= a.first {
		return time.Time{}, false
	}
	i := sort.Search(len(a.marks), func(i int) bool { return a.marks[i].revision >= revision })
	if i == len(a.marks) {
		return now, true
	}
	return a.marks[i].at, true
}

// compare finds out whether a clock has jumped: what it shows is off by more than slack from what it has to show, which is shown as long ago as it is now since
// then.
func (a *ages) compare(shown, then, now time.Time, slack time.Duration) {
	if off := now.Round(0).Sub(shown.Round(0)) - now.Sub(then); off.Abs() > slack {
		a.mu.Lock()
		a.jumped = true
		a.mu.Unlock()
	}
}

// noteAge takes up that the store has come to a revision. Called with applying.
func (j *janitor) noteAge(revision int64, now time.Time) {
	j.ages.note(revision, j.store.floor.Load(), now, max(j.slack(), j.store.options.HistoryAge/64))
	j.ages.compare(j.opened, j.opened, now, j.slack())
}

// tellAge tells how old the last change is, and whether the times in the table tell of all changes of history how old they are.
func (j *janitor) tellAge(now time.Time) (age time.Duration, told bool) {
	last := j.store.position
	j.ages.compare(j.opened, j.opened, now, j.slack())
	age = now.Sub(j.dueOf(oldChange{revision: last.revision, at: last.at}, now).Add(-j.store.options.HistoryAge))
	j.ages.mu.Lock()
	defer j.ages.mu.Unlock()
	return age, !j.ages.jumped && (j.aged || j.store.floor.Load() >= j.ages.first)
}

// dueOf returns when a change is old enough to be pruned.
func (j *janitor) dueOf(c oldChange, now time.Time) time.Time {
	if at, known := j.ages.of(c.revision, now); known {
		return at.Add(j.store.options.HistoryAge)
	}
	return j.dueAt(c.at)
}
