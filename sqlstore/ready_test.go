package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// A caller that does not wait until the database answers learns why the last commit failed. A full disk is no such reason.
func TestReadyOutOfTime(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, s *Store) {
		release := make(chan struct{})
		if !s.queue.putTask(func() { <-release }) {
			t.Fatal("the store is closed")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		why := fmt.Errorf("%w: the database did not answer in time", resources.ErrUnavailable)
		full := fmt.Errorf("%w: %w", resources.ErrUnavailable, resources.ErrFull)
		for failure, want := range map[error]error{nil: context.Canceled, why: why, full: context.Canceled} {
			s.failure.set(failure)
			if err := s.Ready(ctx); !errors.Is(err, want) {
				t.Errorf("after %v: %v, want %v", failure, err, want)
			}
		}
		close(release)
		if err := s.probe(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
