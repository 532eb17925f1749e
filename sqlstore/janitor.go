package sqlstore

import (
	"strings"
	"sync"
	"time"
)

// janitor runs duties that become due: it prunes history, deletes objects at the end of their lifetime, drops past
// states that were kept for lists and pages of history that were kept for watches, and records the object history. It
// sleeps until the next duty is due; when none is, it has no timer.
//
// Its work on the database runs as tasks of the committer, in steps that are small beside a batch.
type janitor struct {
	store *Store
	ages  ages

	mu   sync.Mutex
	due  [duties]time.Time // zero: not due
	wake chan struct{}     // has a value when a duty became due earlier than before
	quit chan struct{}
	done chan struct{}
}

// duty is one kind of work of the janitor.
type duty int

const (
	prune duty = iota
	expire
	forget
	resolve
	record
	note
	duties
)

func newJanitor(s *Store) *janitor {
	opened := s.clock.Now()
	j := &janitor{store: s, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	log, recorded, _ := strings.Cut(s.noted, " ")
	j.ages.restore(log, s.position.revision, opened)
	s.recorder.restoreAges(recorded)
	// The work that a former process left is looked for at once; that shows when to look again.
	j.due[prune] = opened
	j.due[expire] = opened
	j.due[note] = opened.Add(j.noteEvery())
	if s.recorder.works() {
		j.due[record] = opened
	}
	return j
}

// at makes a duty due at a time, if it is not due earlier.
func (j *janitor) at(d duty, t time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.due[d].IsZero() && !t.Before(j.due[d]) {
		return
	}
	j.due[d] = t
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// noteCommit schedules the duties that follow from a batch.
func (j *janitor) noteCommit(b *batch) {
	now := j.store.clock.Now()
	j.noteAge(b.revision, now)
	j.at(note, now.Add(j.noteEvery()))
	if j.store.historyBytes.Load() > j.store.options.HistorySize {
		j.at(prune, now)
	} else {
		j.at(prune, now.Add(j.store.options.HistoryAge).Add(j.slack()))
	}
	j.noteRecord(now.Add(recordDelay))
	var first int64
	for i := range b.changes {
		if e := b.changes[i].expires; e > 0 && (first == 0 || e < first) {
			first = e
		}
	}
	if first > 0 {
		j.at(expire, milliseconds(first).Add(expirySlack))
	}
}

// noteForeign schedules the duties that follow from writes of other servers, which do them themselves unless they end.
// Called with applying.
func (j *janitor) noteForeign(now time.Time) {
	j.noteAge(j.store.position.revision, now)
	j.at(note, now.Add(j.noteEvery()))
	j.at(prune, now.Add(j.store.options.HistoryAge).Add(2*j.slack()))
	j.at(expire, now.Add(foreignSlack))
	j.noteRecord(now.Add(recordTurn))
}

// foreignSlack is how long after another server's write this one looks for objects whose lifetime it has to end.
const foreignSlack = 10 * time.Second

// slack is how long after its due time history is pruned, so that one step takes many changes.
func (j *janitor) slack() time.Duration { return min(j.store.options.HistoryAge/16, 10*time.Second) }

// expirySlack is how long after the end of its lifetime an object is deleted, so that one step takes many.
const expirySlack = time.Second

func (j *janitor) run() {
	defer close(j.done)
	for {
		d, wait, any := j.next()
		if any && wait <= 0 {
			j.perform(d)
			select {
			case <-j.quit:
				return
			default:
				continue
			}
		}
		if !j.sleep(wait, any) {
			return
		}
	}
}

// next returns the duty that is due first, and the time until then.
func (j *janitor) next() (d duty, wait time.Duration, any bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var first time.Time
	for i, t := range j.due {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first, d = t, duty(i)
		}
	}
	if first.IsZero() {
		return 0, 0, false
	}
	return d, first.Sub(j.store.clock.Now()), true
}

// sleep waits for d (for ever, if not timed), or until a duty is due earlier. It returns false when the janitor is to
// end.
func (j *janitor) sleep(d time.Duration, timed bool) bool {
	var fired <-chan time.Time
	if timed {
		timer := j.store.clock.NewTimer(d)
		defer timer.Stop()
		fired = timer.C()
	}
	select {
	case <-fired:
	case <-j.wake:
	case <-j.quit:
		return false
	}
	return true
}

// retryAfter is when a duty is tried again after the database failed.
const retryAfter = 10 * time.Second

func (j *janitor) perform(d duty) {
	j.mu.Lock()
	j.due[d] = time.Time{} // before the work: a duty that becomes due meanwhile must not be lost
	j.mu.Unlock()
	if d != forget && j.store.inPlace() != nil {
		j.at(d, j.store.clock.Now().Add(retryAfter))
		return
	}
	var again time.Time
	var err error
	switch d {
	case prune:
		again, err = j.prune()
	case expire:
		again, err = j.expire()
	case resolve:
		_, err = j.task(j.store.resolve)
	case record:
		again, err = j.record()
	case note:
		again, err = j.note()
	case forget:
		again = earlier(j.store.pastCache.expire(j.store.clock.Now()), j.store.catchUps.expire(j.store.clock.Now()))
	}
	if err != nil {
		if !j.store.saidBefore(err) {
			j.store.logger.Warn("upkeep of the store failed, will be tried again", "error", err)
		}
		again = j.store.clock.Now().Add(retryAfter)
	}
	if !again.IsZero() {
		j.at(d, again)
	}
}

// earlier returns the first of two times, either of which may be zero (never).
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// task runs f on the committer's goroutine and waits for it. It returns the error of f, and whether f ran.
func (j *janitor) task(f func() error) (bool, error) {
	done := make(chan error, 1)
	if !j.store.queue.putTask(func() { done <- f() }) {
		return false, nil
	}
	return true, <-done
}

// stop ends the janitor and waits for it.
func (j *janitor) stop() {
	close(j.quit)
	<-j.done
}
