package sqlstore

import (
	"context"
	"math"
	"time"
)

const (
	// pruneStep is how many changes one transaction takes out of history: a few milliseconds of a writer's time. A step
	// comes after every batch while there is something to prune, so it is no less than what a batch adds.
	pruneStep = batchWrites
	// cutSlice is how many bytes a batch that has to prune takes out beyond those, so that the next ones need not.
	cutSlice = 1 << 20
	// cutRows is how many changes it takes out at most, beside one for every cutRow bytes that it adds.
	cutRows, cutRow = 1024, 64
	// vacuumStep is how many bytes one transaction gives back to the file system.
	vacuumStep = 1 << 20
)

// prune takes out of history what is too old or too much, a step at a time, and gives space back. It returns when the
// next change will be too old.
func (j *janitor) prune() (time.Time, error) {
	spare := int64(-1) // bytes of pages that no change has needed since the last time
	for {
		// The time of before the recorder's chance: what is old by then, it could have come to.
		now := j.store.clock.Now()
		j.store.recorder.chance()
		var result pruneResult
		ran, err := j.task(func() (err error) {
			defer j.store.metrics.kept("prune", time.Now())
			if spare < 0 {
				if spare, err = j.store.db.free(context.Background()); err != nil {
					return err
				}
			}
			result, err = j.pruneOnce(now)
			return err
		})
		if err != nil || !ran {
			return time.Time{}, err
		}
		if !result.more {
			if result.next.IsZero() { // and nothing will need what this one has set free
				spare = math.MaxInt64
			}
			return result.next, j.vacuum(spare)
		}
		select {
		case <-j.quit:
			return time.Time{}, nil
		default:
		}
	}
}

// pruneResult says what is left to prune: more at once, or something at a time (zero: nothing, history is empty).
type pruneResult struct {
	more bool
	next time.Time
}

// pruneOnce is one step. It runs on the goroutine of the committer.
func (j *janitor) pruneOnce(now time.Time) (r pruneResult, err error) {
	s := j.store
	oldest, err := s.db.oldest(passing(), pruneStep)
	if err != nil {
		return r, err
	}
	var floor, freed int64
	excess := s.historyBytes.Load() - s.options.HistorySize
	recorded, err := s.recordedOf(oldest)
	if err != nil {
		return r, err
	}
	for i, c := range oldest {
		due := j.ages.of(c.revision, now).Add(s.options.HistoryAge)
		if c.revision > recorded {
			due = due.Add(s.options.HistoryAge)
		}
		if due.After(now) && excess <= freed {
			r.next = due.Add(j.slack())
			break
		}
		floor = c.revision
		freed += c.frees
		r.more = i == len(oldest)-1
	}
	r.more = r.more && len(oldest) == pruneStep
	if floor == 0 {
		return r, nil
	}
	left, err := s.db.prune(floor)
	if err != nil {
		return r, err
	}
	// Raised when the changes are gone for certain. Who reads history in between is told by the statement that reads it.
	s.raiseFloor(floor)
	s.applying.Lock()
	s.budget.evictTo(floor)
	s.applying.Unlock()
	s.historyBytes.Store(left)
	s.uncut = false
	return r, nil
}

// cut is what a batch takes out of history in its own transaction, so that history keeps its bound however fast it grows: it
// costs no commit of its own.
type cut struct {
	bytes int64 // to take out, the last change that it takes for it included
	rows  int64 // to take out at most

	floor, left int64 // what came of it: the floor, and the bytes of history, those of the batch included; 0: nothing
}

// cut returns what a batch is to take out of history that adds so many bytes. It is not much more than it adds: what else
// there is too much is the janitor's. After a failure it is all the janitor's, until that has succeeded: what cannot be
// pruned is not to fail writes for good. It runs on the goroutine of the committer.
func (s *Store) cut(adds int64) *cut {
	excess := s.historyBytes.Load() + adds - s.options.HistorySize
	if excess <= 0 || s.uncut {
		return nil
	}
	return &cut{bytes: min(excess, 2*adds) + min(cutSlice, s.options.HistorySize/64), rows: cutRows + adds/cutRow}
}

// vacuum gives free pages back to the file system, about as many as are spare, when they are a large part of the file. Fewer are kept: the next
// changes will fill them. To give back what the next changes ask for again costs more than they do: each page is moved, with all that leads to it.
func (j *janitor) vacuum(spare int64) error {
	for gave := false; spare > 0 || gave; gave = true {
		var more bool
		ran, err := j.task(func() (err error) {
			began := time.Now()
			if more = spare > 0; more {
				more, err = j.store.db.vacuum(vacuumStep)
				j.store.metrics.kept("vacuum", began)
			}
			if err == nil && !more && gave {
				defer j.store.metrics.kept("checkpoint", time.Now())
				err = j.store.db.checkpoint()
			}
			return err
		})
		if err != nil || !ran || !more {
			return err
		}
		spare -= vacuumStep
		select {
		case <-j.quit:
			return nil
		default:
		}
	}
	return nil
}
