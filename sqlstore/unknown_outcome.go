package sqlstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// resolveEvery is the pause between two attempts to find out what became of a commit.
const resolveEvery = time.Second

// ascertain finds out what became of a batch whose COMMIT failed in an unknown way, where nobody else writes to the
// database: nil when it was written, resources.ErrUnavailable when it was not, the cause when that cannot be known
// yet. Then s.unresolved has the batch, and no other begins before its outcome is known. Called with applying.
//
// A COMMIT that failed while the log was being flushed may be in the log and be seen by nobody, until a crash brings it to
// light. A commit of nothing makes its fate final: it comes after it in the log, or takes its place.
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

// resolve finds out what became of the batch whose outcome is unknown, if there is one. What was written becomes visible; who asked for it was told to look. It runs on
// the goroutine of the committer. Errors: resources.ErrUnavailable.
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
