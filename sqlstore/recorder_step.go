package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"time"
)

// sqlConn is a connection, or a transaction.
type sqlConn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// recordingState is the row of the table recording.
type recordingState struct {
	revision, bytes int64
	secret          []byte
}

func (s *recordingState) scan(scan func(...any) error) error {
	if err := scan(&s.revision, &s.bytes, &s.secret); err != nil {
		return unavailable(err)
	}
	return nil
}

// completeSecret makes the key of hashes where there is none.
func (s *recordingState) completeSecret() {
	if s.secret == nil {
		s.secret = make([]byte, 32)
		_, _ = rand.Read(s.secret) // it does not fail
	}
}

// recordResult is the result of a step.
type recordResult struct {
	busy bool      // another server is recording
	more bool      // there are more changes
	next time.Time // when the oldest write will be too old; zero: there is none
	// behind is how long ago the last change that was read was made.
	behind time.Duration
}

// recordingStep is a step that is running.
type recordingStep struct {
	*recorder
	result recordResult
	was    recordingState
	found  bool  // whether the row of recording was found
	anew   bool  // there is no row, and it is to be inserted
	floor  int64 // of the log
	upTo   int64 // the last change that was read
	read   int
	rows   []revisionRow
	freed  int64
	wrote  bool
	// failing is how long the step has waited for rows that could not be decrypted.
	failing time.Duration
}

// step records the next changes. With wait it waits while another server records; otherwise it leaves that server to go
// on. Called with mu.
func (r *recorder) step(ctx context.Context, wait bool) (recordResult, error) {
	s := &recordingStep{recorder: r}
	err := r.store.db.aside(ctx, r.store.onCommitter, func(ctx context.Context, c sqlConn, shared bool) (bool, error) {
		return s.readAll(ctx, c, shared, wait)
	}, s.write)
	if err != nil {
		return recordResult{}, err
	}
	s.noteRecorded()
	switch {
	case s.found:
		s.done()
	case s.anew:
		r.store.logger.Warn("the object history goes on with a new row in the table recording, which had none: somebody has deleted it")
		s.result.more = true
	default:
		s.result.busy = true
	}
	return s.result, nil
}

// readAll reads the changes of the step, and reports whether there is something to write.
func (s *recordingStep) readAll(ctx context.Context, c sqlConn, shared, wait bool) (write bool, err error) {
	statement := selectRecordingSQL
	if shared {
		statement += forUpdate
		if !wait {
			statement += skipLocked
		}
	}
	err = eachRow(c.QueryContext(ctx, statement))(func(scan func(...any) error) error {
		s.found = true
		return s.was.scan(scan)
	})
	if err != nil {
		return false, err
	}
	if !s.found {
		return s.lost(ctx, c)
	}
	known := s.revision.Swap(s.was.revision)
	if s.on() && known != 0 && s.was.revision > max(known, s.seen) && !wait {
		s.found = false // another server has made progress: it records
		return false, nil
	}
	if !s.on() {
		return s.discards(ctx, c, known)
	}
	s.was.completeSecret()
	s.upTo = max(s.was.revision, s.seen)
	if err := s.changes(ctx, c); err != nil {
		return false, err
	}
	s.result.more = s.result.more || s.read == recordStep
	if s.result.next, err = s.oldest(ctx, c); err != nil {
		return false, err
	}
	now := s.store.clock.Now()
	return len(s.rows) > 0 || isDue(s.result.next, now) || s.was.bytes > s.options.Size || s.tells(now), nil
}

// lost reports whether the table recording has no row, which is then to be inserted; otherwise another server holds the
// row.
func (s *recordingStep) lost(ctx context.Context, c sqlConn) (bool, error) {
	if err := c.QueryRowContext(ctx, selectNoRecordingSQL).Scan(&s.anew); err != nil {
		return false, unavailable(err)
	}
	return s.anew, nil
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// tells reports whether the position is to be stored although nothing is kept: seldom, since a commit costs more than
// such changes.
func (s *recordingStep) tells(now time.Time) bool {
	behind := s.upTo - s.was.revision
	return s.was.revision == 0 || behind > recordSkipped || behind > 0 && isDue(s.tellAt, now)
}

// done takes over the position of the step.
func (s *recordingStep) done() {
	s.bytes.Store(s.was.bytes)
	s.metrics.recorded.Add(float64(len(s.rows)))
	s.seen = s.upTo
	switch {
	case s.wrote:
		s.revision.Store(s.upTo)
		s.tellAt = time.Time{}
	case s.upTo > s.was.revision && s.tellAt.IsZero():
		s.tellAt = s.store.clock.Now().Add(s.store.options.HistoryAge / 4)
	}
	s.result.next = earlier(s.result.next, s.tellAt)
}

// noteRecorded records since when the recorded writes have existed, those of other servers too.
func (s *recordingStep) noteRecorded() {
	now := s.store.now()
	note := func(revision int64) {
		at := s.store.janitor.ages.of(revision, now)
		if at.After(now) {
			at = now
		}
		s.ages.note(revision, 0, at, s.options.Age/recordAges)
	}
	if !s.on() {
		return
	}
	note(s.was.revision)
	for i := range s.rows {
		note(s.rows[i].revision)
	}
	s.ages.old(now.Add(-s.options.Age))
}

// oldest returns when the first recorded write will be too old.
func (s *recordingStep) oldest(ctx context.Context, c sqlConn) (due time.Time, err error) {
	var first sql.NullInt64
	if err := c.QueryRowContext(ctx, selectOldestRevisionSQL).Scan(&first); err != nil {
		return due, unavailable(err)
	}
	if first.Valid {
		now := s.store.now()
		due = s.store.clock.Now().Add(s.ages.of(first.Int64, now).Add(s.options.Age).Sub(now))
	}
	return due, nil
}

// write writes the result of the step.
func (s *recordingStep) write(ctx context.Context, c sqlConn) error {
	if s.anew {
		_, err := c.ExecContext(ctx, insertRecordingSQL)
		return err
	}
	s.freed = 0
	added := int64(0)
	for i := range s.rows {
		row := &s.rows[i]
		if _, err := c.ExecContext(ctx, insertRevisionSQL, row.args()...); err != nil {
			return err
		}
		added += row.size
	}
	if err := s.trim(ctx, c, added); err != nil {
		return err
	}
	s.was.bytes = max(0, s.was.bytes+added-s.freed)
	s.wrote = true
	return affectOne(c.ExecContext(ctx, updateRecordingSQL, s.upTo, s.was.bytes, s.was.secret, s.was.revision))
}

const (
	// forgetStep is how many revisions one statement deletes, and forgetSteps how many such statements a step has.
	forgetStep, forgetSteps = 64, 8
	// rowsOfObjects is how many revisions of an object a statement deletes at most: more than a step adds, since fewer
	// may be kept than before.
	rowsOfObjects = 4 * recordStep
)

// trim deletes revisions beyond the bounds: of the objects that the step has written, of old writes, and of the whole
// size. The next step does the rest.
func (s *recordingStep) trim(ctx context.Context, c sqlConn, added int64) error {
	if !s.on() {
		return s.discard(ctx, c)
	}
	type object struct{ resource, namespace, name, uid string }
	seen := map[object]bool{}
	for i := range s.rows {
		row := &s.rows[i]
		o := object{row.key.Resource, row.key.Namespace, row.key.Name, row.uid}
		if row.op == "create" || seen[o] {
			continue
		}
		seen[o] = true
		if _, err := s.forget(ctx, c, forgetOfObjectSQL, o.resource, o.namespace, o.name, o.uid, s.options.Revisions, rowsOfObjects); err != nil {
			return err
		}
	}
	old := s.ages.old(s.store.now().Add(-s.options.Age))
	for range forgetSteps {
		n, err := s.forget(ctx, c, forgetOldSQL, old, forgetStep)
		if err != nil {
			return err
		}
		if n < forgetStep {
			break
		}
		s.result.next = s.store.clock.Now()
	}
	excess := s.was.bytes + added - s.freed - s.options.Size
	if excess <= 0 {
		return nil
	}
	n, err := s.forget(ctx, c, forgetFirstSQL, forgetSteps*forgetStep, excess)
	s.result.more = s.result.more || n == forgetSteps*forgetStep
	return err
}

// forget runs a statement that deletes revisions, and returns how many.
func (s *recordingStep) forget(ctx context.Context, c sqlConn, statement string, args ...any) (n int, err error) {
	err = eachRow(c.QueryContext(ctx, statement, args...))(func(scan func(...any) error) error {
		var size int64
		err := scan(&size)
		s.freed += size
		n++
		return err
	})
	return n, err
}
