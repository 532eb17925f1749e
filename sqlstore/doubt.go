package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// doubtPause is when a doubt is looked into again that could not be settled at once.
const doubtPause = time.Second

// ascertain finds out what became of a batch whose COMMIT failed in an unknown way, where nobody else writes to the
// database: nil when it was written, resources.ErrUnavailable when it was not, the cause when that cannot be known
// yet. Then the store is in doubt, and no batch begins before it is settled. Called with applying.
//
// A COMMIT that failed while the log was being flushed may be in the log and be seen by nobody, until a crash brings it to
// light. A commit of nothing makes its fate final: it comes after it in the log, or takes its place.
func (s *Store) ascertain(b *batch, cause error) error {
	s.doubtful = b
	err := s.db.touch()
	var revision int64
	if err == nil {
		revision, err = s.db.revision(context.Background())
	}
	if err != nil {
		s.janitor.at(doubt, s.clock.Now().Add(doubtPause))
		return fmt.Errorf("%w, and cannot be found out: %w", cause, errors.New(err.Error()))
	}
	s.doubtful = nil
	if revision == b.revision {
		return nil
	}
	return fmt.Errorf("%w: %s", resources.ErrUnavailable, cause.Error())
}

// resolve settles a doubt, if there is one. What was written becomes visible; who asked for it was told to look. It runs on
// the goroutine of the committer. Errors: resources.ErrUnavailable.
func (s *Store) resolve() error {
	b := s.doubtful
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
