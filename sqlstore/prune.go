package sqlstore

import (
	"context"
	"math"
	"time"
)

const (
	// pruneStep is how many changes one transaction prunes: a few milliseconds of a writer's time. A step comes after
	// every batch while there is something to prune, so it prunes at least as many changes as a batch adds.
	pruneStep = batchWrites
	// cutSlice is how many bytes a batch prunes beyond the excess, so that the next batches need not prune.
	cutSlice = 1 << 20
	// cutRows is how many changes a batch prunes at most, plus one for every cutRow bytes that it adds.
	cutRows, cutRow = 1024, 64
	// vacuumStep is how many bytes one transaction gives back to the file system.
	vacuumStep = 1 << 20
)

// prune removes changes from history that are too old, or that exceed its size, a step at a time, and gives space back.
// It returns when the next change will be too old.
func (j *janitor) prune() (time.Time, error) {
	spare := int64(-1) // bytes of pages that no change has needed since the last prune
	for {
		// The time is taken before the recorder's turn: changes that are due by then could have been recorded.
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
			if result.next.IsZero() { // history is empty, so the pages freed by this step are not needed either
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

// pruneResult tells what is left to prune: more at once, or something at the time next (zero: history is empty).
type pruneResult struct {
	more bool
	next time.Time
}

// pruneOnce is one step of prune. It runs on the committer's goroutine.
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
	// Raised once the changes are certainly gone. Until then the statement that reads history returns the floor.
	s.raiseFloor(floor)
	s.applying.Lock()
	s.budget.evictTo(floor)
	s.applying.Unlock()
	s.historyBytes.Store(left)
	s.uncut = false
	return r, nil
}

// cut is what a batch prunes in its own transaction, without a further commit, so that history keeps its bound however
// fast it grows.
type cut struct {
	bytes int64 // to prune at least, ending with the change that reaches them
	rows  int64 // to prune at most

	floor, left int64 // result: the floor, and the bytes of history including those of the batch; 0: nothing was pruned
}

// cut returns what a batch that adds so many bytes is to prune. It is not much more than the batch adds: the janitor
// prunes the rest. After a failure the janitor prunes everything until it has succeeded once: changes that cannot be
// pruned must not fail writes for good. It runs on the committer's goroutine.
func (s *Store) cut(adds int64) *cut {
	excess := s.historyBytes.Load() + adds - s.options.HistorySize
	if excess <= 0 || s.uncut {
		return nil
	}
	return &cut{bytes: min(excess, 2*adds) + min(cutSlice, s.options.HistorySize/64), rows: cutRows + adds/cutRow}
}

// vacuum gives free pages back to the file system, about as many as are spare, if they are a large part of the file.
// Fewer are kept: the next changes will fill them. To give back pages that the next changes need again costs more than
// these changes: each page is moved, with all references to it.
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
