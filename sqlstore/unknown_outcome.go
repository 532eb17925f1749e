package sqlstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// resolveEvery is the pause between two attempts to determine the outcome of a commit.
const resolveEvery = time.Second

// ascertain determines the outcome of a batch whose COMMIT failed in an unclear way, if no other server writes to the
// database: nil if it was written, resources.ErrUnavailable if it was not, the cause if that cannot be known yet. In
// the last case s.unresolved has the batch, and no other batch begins before its outcome is known. Called with
// applying.
//
// A COMMIT that failed while the log was being flushed may be in the log without being visible, until a crash makes it
// visible. A commit without changes makes its outcome final: that one follows it in the log, or takes its place.
func (s *Store) ascertain(b *batch, cause error) error {
	s.unresolved = b
	err := s.db.touch()
	var revision int64
	if err == nil {
		revision, err = s.db.revision(passing())
	}
	if err != nil {
		s.janitor.at(resolve, s.clock.Now().Add(resolveEvery))
		return fmt.Errorf("%w, and cannot be found out: %w", cause, errors.New(err.Error()))
	}
	s.unresolved = nil
	if revision == b.revision {
		return nil
	}
	return fmt.Errorf("%w: %s", resources.ErrUnavailable, cause.Error())
}

// resolve determines the outcome of the batch in s.unresolved, if there is one. If it was written, it becomes visible;
// its writers were told that the outcome is unknown. It runs on the committer's goroutine. Errors:
// resources.ErrUnavailable.
func (s *Store) resolve() error {
	b := s.unresolved
	if b == nil {
		return nil
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	err := s.ascertain(b, resources.ErrUnknownOutcome)
	switch {
	case err == nil:
		s.accept(b)
	case errors.Is(err, resources.ErrUnknownOutcome):
		return fmt.Errorf("%w: of the commit before: %s", resources.ErrUnavailable, err.Error())
	}
	return nil
}
