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

// recordingState is the row of that table.
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

// recordResult says what came of a step.
type recordResult struct {
	busy bool      // another server is at it
	more bool      // there are more changes
	next time.Time // when something will be too old; zero: there is nothing
	// behind is how long ago the last change was made that was read.
	behind time.Duration
}

// recordingStep is one on its way.
type recordingStep struct {
	*recorder
	result recordResult
	was    recordingState
	found  bool  // the state
	anew   bool  // there is none, and it is to be made
	floor  int64 // of the log
	upTo   int64 // the last change that was read
	read   int
	rows   []revisionRow
	freed  int64
	wrote  bool
	// failing is how long it was waited for what could not be decrypted.
	failing time.Duration
}

// step takes the next changes. With wait it waits for another server that is at it, which else is left to go on. Called with mu.
func (r *recorder) step(ctx context.Context, wait bool) (recordResult, error) {
	s := &recordingStep{recorder: r}
	err := r.store.db.aside(ctx, r.store.onCommitter, func(ctx context.Context, c sqlConn, shared bool) (bool, error) {
		return s.readAll(ctx, c, shared, wait)
	}, s.write)
	if err != nil {
		return recordResult{}, err
	}
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

// readAll reads what the step is about, and tells whether there is something to write.
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
	if known := s.revision.Swap(s.was.revision); known != 0 && s.was.revision > max(known, s.seen) && !wait {
		s.found = false // another server has gone on: it is the one that does it
		return false, nil
	}
	if s.was.secret == nil {
		s.was.secret = make([]byte, 32)
		_, _ = rand.Read(s.was.secret) // it does not fail
	}
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

// lost tells whether there is no row of recording at all, so that it is to be made; else another server holds it.
func (s *recordingStep) lost(ctx context.Context, c sqlConn) (bool, error) {
	if err := c.QueryRowContext(ctx, selectNoRecordingSQL).Scan(&s.anew); err != nil {
		return false, unavailable(err)
	}
	return s.anew, nil
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// tells reports whether the database is to be told of changes of which nothing is kept: seldom, for a commit costs more than they do.
func (s *recordingStep) tells(now time.Time) bool {
	behind := s.upTo - s.was.revision
	return s.was.revision == 0 || behind > recordSkipped || behind > 0 && isDue(s.tellAt, now)
}

// done takes up what the step has come to.
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

// oldest returns when the first write that is kept will be too old.
func (s *recordingStep) oldest(ctx context.Context, c sqlConn) (due time.Time, err error) {
	var at sql.NullInt64
	if err := c.QueryRowContext(ctx, selectOldestRevisionSQL).Scan(&at); err != nil {
		return due, unavailable(err)
	}
	if at.Valid {
		due = milliseconds(at.Int64).Add(s.options.Age + s.store.jumped())
	}
	return due, nil
}

// write does what the step comes to.
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
	// forgetStep is how many revisions one statement forgets, and forgetSteps how many statements a step has for them.
	forgetStep, forgetSteps = 64, 8
	// rowsOfObjects is how much more than a row a step adds may be forgotten of the same objects, when fewer are to be kept than were.
	rowsOfObjects = 4 * recordStep
)

// trim forgets what is more than is to be kept: of the objects that the step has written, of what is old, and of all. What is left to do
// the next step does.
func (s *recordingStep) trim(ctx context.Context, c sqlConn, added int64) error {
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
	before := s.store.clock.Now().Add(-s.options.Age - s.store.jumped()).UnixMilli()
	for range forgetSteps {
		n, err := s.forget(ctx, c, forgetOldSQL, before, forgetStep)
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
