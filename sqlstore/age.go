package sqlstore

import (
	"encoding/json"
	"sort"
	"sync"
	"time"
)

// ages knows how old changes are by the time that has passed, while a store was open, since they were made or heard of, and not by what a clock
// showed then: a clock that jumps makes nothing older, and neither does the time that a store was closed.
//
// Invariant: no change was made after the mark that is the first at its revision or after it. A store that is opened has the marks that one before it noted, as long ago
// as they were then, since no time has passed for history in between; and one for all that was there when it was opened. So what is
// noted stays true however long ago that was, whoever wrote since, and whether the store was closed or killed: changes become older than they count as, never younger.
type ages struct {
	mu    sync.Mutex
	marks []ageMark
}

// ageMark says that a revision, and with it all before, was there at a time.
type ageMark struct {
	revision int64
	at       time.Time
}

// restore begins with what was noted. A note that cannot be read says nothing.
func (a *ages) restore(noted string, revision int64, opened time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks = parseMarks(noted, revision, opened)
	if n := len(a.marks); n == 0 || a.marks[n-1].revision < revision {
		a.marks = append(a.marks, ageMark{revision, opened})
	}
}

// parseMarks reads what ages.noted has written, nothing unless all of it is in order.
func parseMarks(noted string, revision int64, opened time.Time) (marks []ageMark) {
	var pairs [][2]int64
	if noted == "" || json.Unmarshal([]byte(noted), &pairs) != nil {
		return nil
	}
	for i, p := range pairs {
		age := time.Duration(p[1]) * time.Millisecond
		if p[0] > revision || p[1] < 0 || age.Milliseconds() != p[1] || i > 0 && (p[0] <= pairs[i-1][0] || p[1] > pairs[i-1][1]) {
			return nil
		}
		marks = append(marks, ageMark{p[0], opened.Add(-age)})
	}
	return marks
}

// jumped is by how much the clock has been set forward since the store was opened, and the time that the machine slept. The object history, which
// outlives the process, goes by the clock; what that skipped makes nothing of it old.
func (s *Store) jumped() time.Duration {
	shown := s.clock.Now().Round(0).Sub(s.opened.Round(0)) // by what the clock shows
	jump := shown - s.clock.Since(s.opened)
	if jump > clockWrong {
		return 0
	}
	return max(0, jump)
}

// clockWrong is from what jump on a clock counts as one that was wrong when the store was opened, as of a machine that has none of its own, and is
// right now.
const clockWrong = 5 * 365 * 24 * time.Hour

// noted is what restore takes, of the marks after the floor; empty: there are none.
func (a *ages) noted(floor int64, now time.Time) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var pairs [][2]int64
	for _, m := range a.marks {
		if m.revision > floor {
			pairs = append(pairs, [2]int64{m.revision, max(0, now.Sub(m.at).Milliseconds())})
		}
	}
	if len(pairs) == 0 {
		return "", nil
	}
	text, err := json.Marshal(pairs)
	return string(text), err
}

// note takes up that the store has come to a revision. Changes that are made within spacing of each other count as made with
// the last of them. What is at the floor or below is forgotten.
func (a *ages) note(revision, floor int64, now time.Time, spacing time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.marks) > 0 && a.marks[0].revision <= floor {
		a.marks = a.marks[1:]
	}
	if n := len(a.marks); n > 0 && a.marks[n-1].revision >= revision {
		return
	}
	if n := len(a.marks); n > 1 && now.Sub(a.marks[n-2].at) < spacing {
		a.marks = a.marks[:n-1]
	}
	a.marks = append(a.marks, ageMark{revision, now})
}

// of returns when a change was there for certain; now, when that was not noted.
func (a *ages) of(revision int64, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := sort.Search(len(a.marks), func(i int) bool { return a.marks[i].revision >= revision })
	if i == len(a.marks) {
		return now
	}
	return a.marks[i].at
}

// noteAge takes up that the store has come to a revision. Called with applying.
func (j *janitor) noteAge(revision int64, now time.Time) {
	j.ages.note(revision, j.store.floor.Load(), now, j.store.options.HistoryAge/64)
}

// noteEvery is how often the ages are noted while there is history: a server that is killed has lost so much of them, and one that never lives for
// so long prunes by size alone.
func (j *janitor) noteEvery() time.Duration {
	return max(min(time.Minute, j.store.options.HistoryAge/4), j.store.options.HistoryAge/64)
}

// note writes the ages down, and returns when to do it again: never, where there is no history.
func (j *janitor) note() (again time.Time, err error) {
	var history bool
	_, err = j.task(func() (err error) {
		defer j.store.metrics.kept("prune", time.Now())
		history, err = j.noteAges()
		return err
	})
	if err != nil || !history {
		return time.Time{}, err
	}
	return j.store.clock.Now().Add(j.noteEvery()), nil
}

// noteAges is a step of it. It runs on the goroutine of the committer, or when that has ended. history: there is some.
func (j *janitor) noteAges() (history bool, err error) {
	text, err := j.ages.noted(j.store.floor.Load(), j.store.clock.Now())
	if err != nil || text == "" {
		return false, err
	}
	return true, j.store.db.noteAges(text)
}
