package sqlstore

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/recording"
)

// ObjectHistory configures the object history: writes that are kept for people, besides the log, which watches need.
// The zero value: none.
type ObjectHistory struct {
	// Age is how long a write is kept at most; 0: none is kept.
	Age time.Duration
	// Revisions is how many writes of an object are kept at most, the last ones, and how many more that changed only its
	// status; 0 means DefaultObjectRevisions.
	Revisions int
	// Size bounds the object history, in bytes of the database: the oldest writes are removed first. 0 means
	// DefaultObjectHistorySize.
	Size int64
	// Discard removes, without an Age, what earlier servers have kept, unless another one still records. The zero value
	// leaves it: commands open stores whose history they do not know.
	Discard bool
	// SecretValues keeps the values of Secrets, and shows them; without it, keyed hashes replace them.
	SecretValues bool
}

// The defaults of ObjectHistory.
const (
	DefaultObjectHistoryAge  = 7 * 24 * time.Hour
	DefaultObjectRevisions   = 20
	DefaultObjectHistorySize = 256 << 20
)

func (o *ObjectHistory) complete() error {
	if o.Age < 0 || o.Revisions < 0 || o.Size < 0 {
		return errors.New("the age, the number and the size of the object history must not be negative")
	}
	if o.Revisions == 0 {
		o.Revisions = DefaultObjectRevisions
	}
	if o.Size == 0 {
		o.Size = DefaultObjectHistorySize
	}
	return nil
}

// recorder fills the object history: it follows the log and records its writes in the table revisions. Writes neither
// wait for it nor cost more because of it: it reads committed changes, a step at a time, as a duty of the janitor, and
// rests after each step for many times as long as the step took. The rows of a step and its position are one
// transaction, so a process that is killed neither omits a write nor records it twice. Servers that share a database
// take turns: a server that finds the row of recording locked, or another server's progress in it, tries again later.
//
// The log is pruned as if there were no recorder, except for changes that are not recorded yet: these stay twice as
// long as their age allows. The size of the log bounds them, too. Changes that are pruned before they are recorded are
// a gap, which the server's log and a metric report.
type recorder struct {
	store   *Store
	options ObjectHistory
	metrics *recorderMetrics

	// revision is the position of the history in the database; bytes is its size. They may be behind another server.
	revision, bytes atomic.Int64

	// ages measures the age of what is kept, with a mark for every recordAges-th part of its maximum. It is noted also by
	// a store without an object history, which may belong to a command.
	ages ages

	reads chan struct{} // has a value for every call of ObjectHistory that reads

	mu   sync.Mutex // held during a step; guards the fields below
	seen int64      // how far this server has read; changes after revision up to seen had nothing to keep
	// tellAt is when seen is stored in the database at the latest: before the log is pruned.
	tellAt time.Time
	// discardAt is when an object history that nobody goes on with is removed at the earliest.
	discardAt time.Time
	discarded bool // the log says that it is
	// notBefore is the earliest time of the next step, unless a caller waits for it.
	notBefore time.Time
	packer    recording.Packer
	hinted    bool // the log says that a write was recorded without its object
}

const (
	// recordDelay is how long after a write it is recorded at the earliest, so that one step takes many.
	recordDelay = time.Second
	// recordStep is how many changes are read at a time, and recordBytes how many bytes of them, not counting the last
	// one.
	recordStep, recordBytes = 128, 1 << 20
	// recordRest is how many times as long as a step the recorder rests after it; recordRestBehind is the same while
	// half of the log, by its size or its age, is not recorded yet.
	recordRest, recordRestBehind = 15, 3
	// recordSkipped is how many changes without anything to keep are passed before the position is stored in the
	// database.
	recordSkipped = 4096
	// recordAges is into how many parts the maximum age is divided: a write is kept for as much longer at most. The marks
	// are in the row that each commit in SQLite writes, so there are few.
	recordAges = 16
	// recordTurn is how long a server waits when another one is recording.
	recordTurn = 10 * time.Second
)

// restoreAges begins with noted ages of what is kept.
func (r *recorder) restoreAges(noted string) {
	at, now := r.store.position.revision, r.store.now()
	r.ages.marks = parseMarks(noted, at, now)
	if r.on() {
		r.ages.note(at, 0, now, r.options.Age/recordAges)
	}
}

// on reports whether there is an object history.
func (r *recorder) on() bool { return r.options.Age > 0 }

// works reports whether the janitor has something to do for the object history.
func (r *recorder) works() bool { return r.on() || r.options.Discard }

// noteRecord schedules recording.
func (j *janitor) noteRecord(at time.Time) {
	if j.store.recorder.on() {
		j.at(record, at)
	}
}

// record is a duty of the janitor: it makes a step, and returns when the next one is due.
func (j *janitor) record() (time.Time, error) {
	r := j.store.recorder
	if !r.works() {
		return time.Time{}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.store.clock.Now().Before(r.notBefore) {
		return r.notBefore, nil
	}
	begun := time.Now() // by the real clock: how long the step occupies the machine
	done, err := r.step(context.Background(), false)
	if err != nil {
		return time.Time{}, err
	}
	rest := recordRest * time.Since(begun)
	switch {
	case done.busy:
		rest = recordTurn
	case done.more && (j.store.historyBytes.Load() > j.store.options.HistorySize/2 || done.behind > j.store.options.HistoryAge/2):
		rest /= recordRest / recordRestBehind
	}
	r.notBefore = j.store.clock.Now().Add(rest)
	if done.more || done.busy {
		return r.notBefore, nil
	}
	return done.next, nil
}

// RecordHistory brings the object history up to date with every write that was acknowledged before the call. Without an
// object history it does nothing. Errors: resources.ErrUnavailable, resources.ErrClosed, the context's.
func (s *Store) RecordHistory(ctx context.Context) error {
	if !s.recorder.on() {
		return nil
	}
	upTo, err := s.db.revision(ctx)
	for more := true; more && err == nil; {
		if err = ctx.Err(); err == nil {
			more, err = s.recorder.reach(ctx, upTo)
		}
	}
	return err
}

// reach makes a step if the history has not come to a revision, and reports whether there is more to read.
func (r *recorder) reach(ctx context.Context, revision int64) (more bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case max(r.revision.Load(), r.seen) >= revision:
		return false, nil
	case r.store.closing.Load():
		return false, resources.ErrClosed
	}
	done, err := r.step(ctx, true)
	return done.more, err
}

// chanceSteps is how many steps are made before the log is pruned, at most.
const chanceSteps = 16

// chance makes some steps before the log is pruned, whatever else is due and however long the recorder wanted to rest:
// after the process or the machine slept, all earlier writes are old at once, and must not be lost for that reason. The
// next step reports errors.
func (r *recorder) chance() {
	if !r.on() || !r.mu.TryLock() {
		return // another goroutine records
	}
	defer r.mu.Unlock()
	for range chanceSteps {
		if max(r.revision.Load(), r.seen) >= r.store.revisions.current.Load() {
			return
		}
		if done, err := r.step(context.Background(), false); err != nil || !done.more {
			return
		}
	}
}

// recordedOf returns the revision after which changes are not recorded yet; only its relation to the given changes
// matters.
func (s *Store) recordedOf(changes []oldChange) (int64, error) {
	r := s.recorder
	if !r.on() || len(changes) == 0 {
		return math.MaxInt64, nil
	}
	if known := r.revision.Load(); known >= changes[len(changes)-1].revision {
		return known, nil
	}
	revision, err := s.RecordedAt(passing())
	if err == nil {
		r.revision.Store(revision)
	}
	return revision, err
}
