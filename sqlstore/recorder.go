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

// ObjectHistory says what is kept of writes for people, beside the log, which watches need. The zero value: nothing.
type ObjectHistory struct {
	// Age is how long a write is kept at most; 0: nothing is kept.
	Age time.Duration
	// Revisions is how many writes of an object are kept at most, the last ones; 0 means DefaultObjectRevisions.
	Revisions int
	// Size bounds all that is kept, in bytes of the database: what is oldest goes first. 0 means DefaultObjectHistorySize.
	Size int64
	// SecretValues keeps the values of Secrets; else there are keyed hashes in their place.
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

// recorder fills the object history: it follows the log and puts into the table revisions what is to be kept of it. Writes do not
// wait for it and cost no more for it: it reads what they have committed, a step at a time, as a duty of the janitor, and rests
// after each step for many times as long as that took. The rows of a step and how far it has come are one transaction, so a process
// that is killed leaves nothing out and keeps nothing twice. Servers that share a database take turns: who finds the row of recording
// locked, or has lost it to another, comes back later.
//
// The log is pruned as if it were not there, but for changes that it has not come to: these stay for as long again as their age asks for. The
// size of the log is a bound for them, too. What is pruned before it is recorded is a gap, of which the log of the server and a metric tell.
type recorder struct {
	store   *Store
	options ObjectHistory
	metrics *recorderMetrics

	// revision is how far the database says that the history has come; bytes how much it has. They may be behind another server.
	revision, bytes atomic.Int64

	mu   sync.Mutex // a step; guards the rest
	seen int64      // how far this server has read, perhaps beyond revision: there was nothing to keep of what is between
	// tellAt is when the database is told of that, at the latest: before the log is pruned.
	tellAt time.Time
	// notBefore is when the next step may be, unless somebody waits for it.
	notBefore time.Time
	packer    recording.Packer
	hinted    bool // that something was recorded without its object
}

const (
	// recordDelay is how long after a write it is recorded, at the earliest, so that one step takes many.
	recordDelay = time.Second
	// recordStep is how many changes are read at a time, and recordBytes how many bytes of them, but for the last one.
	recordStep, recordBytes = 128, 1 << 20
	// recordRest is how many times as long as a step the recorder rests after it; recordRestBehind, when half of the log waits for it, by its size or its age.
	recordRest, recordRestBehind = 15, 3
	// recordSkipped is how many changes are passed, of which nothing is kept, before the database is told.
	recordSkipped = 4096
	// recordTurn is how long a server leaves it to another one that is at it.
	recordTurn = 10 * time.Second
)

// on tells whether there is an object history.
func (r *recorder) on() bool { return r.options.Age > 0 }

// noteRecord takes up that there will be something to record.
func (j *janitor) noteRecord(at time.Time) {
	if j.store.recorder.on() {
		j.at(record, at)
	}
}

// record is the duty of the janitor: a step, and when the next one is due.
func (j *janitor) record() (time.Time, error) {
	r := j.store.recorder
	if !r.on() {
		return time.Time{}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.store.clock.Now().Before(r.notBefore) {
		return r.notBefore, nil
	}
	begun := time.Now() // of the real clock: how much of the machine it takes
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

// RecordHistory brings the object history up to date with every write that was acknowledged before. Without an object history
// it does nothing. Errors: resources.ErrUnavailable, resources.ErrClosed, the context's.
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

// reach makes a step if the history has not come to a revision, and tells whether there is more to read.
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

// chance is some steps before the log is pruned, whatever else is due and however long the recorder wanted to rest: where the process or the
// machine slept, what was written before is old at once, and is not to be lost for that. What it fails by the next one tells.
func (r *recorder) chance() {
	if !r.on() || !r.mu.TryLock() {
		return // somebody else is at it
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

// recordedOf returns the revision after which changes are not in the object history yet, as far as some changes are concerned.
func (s *Store) recordedOf(changes []oldChange) (int64, error) {
	r := s.recorder
	if !r.on() || len(changes) == 0 {
		return math.MaxInt64, nil
	}
	if known := r.revision.Load(); known >= changes[len(changes)-1].revision {
		return known, nil
	}
	var state recordingState
	err := s.db.each(passing(), func(scan func(...any) error) error { return state.scan(scan) }, selectRecordingSQL)
	if err == nil {
		r.revision.Store(state.revision)
	}
	return state.revision, err
}
