package sqlstore

import (
	"encoding/json"
	"sort"
	"sync"
	"time"
)

// ages measures the age of changes, or of recorded writes, by the time that has passed, while a store was open, since
// they were made or heard of. It does not compare readings of a clock: neither a clock that jumps nor the time while the store was closed ages
// a change.
//
// Invariant: no change was made after the first mark at or above its revision. A store that is opened restores the
// marks that a previous one noted, with the ages of that time, since closed time does not age history; and it adds a
// mark for all changes that exist when it is opened. So a note stays true however old it is, whichever server wrote
// since, and whether the store was closed or killed: a change may be older than it counts as, never younger.
type ages struct {
	mu    sync.Mutex
	marks []ageMark
}

// ageMark says that a revision, and every revision before it, existed at a time.
type ageMark struct {
	revision int64
	at       time.Time
}

// restore begins with noted marks. A note that cannot be parsed is ignored.
func (a *ages) restore(noted string, revision int64, opened time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks = parseMarks(noted, revision, opened)
	if n := len(a.marks); n == 0 || a.marks[n-1].revision < revision {
		a.marks = append(a.marks, ageMark{revision, opened})
	}
}

// parseMarks parses the text of ages.noted; it returns nil unless the whole text is valid.
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

// now returns the time as it passes while the store is open, whatever the clock is set to.
func (s *Store) now() time.Time { return s.opened.Add(s.clock.Since(s.opened)) }

// noted returns the marks after the floor in the form that restore reads; empty: there are none.
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

// note records that the store has come to a revision. Changes within spacing of each other count as made with the last
// of them. Marks at or below the floor are dropped.
func (a *ages) note(revision, floor int64, now time.Time, spacing time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.marks) > 0 && a.marks[0].revision <= floor {
		a.marks = a.marks[1:]
	}
	if n := len(a.marks); n > 0 {
		last := a.marks[n-1]
		if last.revision >= revision {
			return
		}
		if now.Before(last.at) {
			now = last.at
		}
	}
	if n := len(a.marks); n > 1 && now.Sub(a.marks[n-2].at) < spacing {
		a.marks = a.marks[:n-1]
	}
	a.marks = append(a.marks, ageMark{revision, now})
}

// of returns a time at which the change certainly existed; now, if no mark covers it.
func (a *ages) of(revision int64, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := sort.Search(len(a.marks), func(i int) bool { return a.marks[i].revision >= revision })
	if i == len(a.marks) {
		return now
	}
	return a.marks[i].at
}

// old returns the last revision that certainly existed at a time; 0: none. It drops the marks before that one, which are
// no longer needed if what is as old goes.
func (a *ages) old(before time.Time) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.marks) > 1 && !a.marks[1].at.After(before) {
		a.marks = a.marks[1:]
	}
	if len(a.marks) == 0 || a.marks[0].at.After(before) {
		return 0
	}
	return a.marks[0].revision
}

// noteAge records that the store has come to a revision. Called with applying.
func (j *janitor) noteAge(revision int64, now time.Time) {
	j.ages.note(revision, j.store.floor.Load(), now, j.store.options.HistoryAge/64)
}

// noteEvery is how often the ages are stored while there is history: a killed server loses that much of them, and a
// server that never lives for so long prunes by size only.
func (j *janitor) noteEvery() time.Duration {
	return max(min(time.Minute, j.store.options.HistoryAge/4), j.store.options.HistoryAge/64)
}

// note stores the ages, and returns when to do it again: never, if there is no history.
func (j *janitor) note() (again time.Time, err error) {
	var every time.Duration
	_, err = j.task(func() (err error) {
		defer j.store.metrics.kept("prune", time.Now())
		every, err = j.noteAges()
		return err
	})
	if err != nil || every == 0 {
		return time.Time{}, err
	}
	return j.store.clock.Now().Add(every), nil
}

// noteAges is the step of note that runs on the committer's goroutine, or after that has ended. It returns how long the
// next note may wait; 0: there is no history. The ages of the object history follow those of the log, after a space.
func (j *janitor) noteAges() (every time.Duration, err error) {
	r := j.store.recorder
	text, err := j.ages.noted(j.store.floor.Load(), j.store.clock.Now())
	if err != nil {
		return 0, err
	}
	switch {
	case text != "":
		every = j.noteEvery()
	case r.on() && r.bytes.Load() > 0:
		every = max(j.noteEvery(), min(time.Hour, r.options.Age/recordAges))
	}
	recorded, err := r.ages.noted(0, j.store.now())
	if err != nil {
		return 0, err
	}
	if recorded != "" {
		text += " " + recorded
	}
	if text == "" {
		return 0, nil
	}
	return every, j.store.db.noteAges(text)
}
