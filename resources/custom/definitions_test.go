package custom

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// slowStore is a store whose database answers only when the test lets it.
type slowStore struct {
	resources.View
	asked, answers chan struct{}
}

func (s slowStore) Snapshot(context.Context, string, resources.At) (resources.Snapshot, error) {
	s.asked <- struct{}{}
	<-s.answers
	return nil, resources.ErrUnavailable
}

// While a slow database delays one request that needs new changes, other requests get the known state, and requests that wait can
// be cancelled.
func TestSlowDatabaseHoldsUpNobodyElse(t *testing.T) {
	store := slowStore{asked: make(chan struct{}), answers: make(chan struct{})}
	d := New(Config{Registry: resources.NewRegistry(), Store: store, Logger: slog.New(slog.DiscardHandler)}, nil)
	first := make(chan error)
	go func() { first <- d.Seen(t.Context()) }()
	<-store.asked
	others := make(chan struct{})
	go func() {
		defer close(others)
		if _, ok := d.StoredType("widgets.example.com"); ok {
			t.Error("a definition that is not there has a type")
		}
		d.namesIn("example.com")
		d.versionsOfOthers("example.com", "widgets.example.com")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.Seen(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone is told %v", err)
		}
	}()
	select {
	case <-others:
	case <-time.After(time.Minute):
		t.Error("others wait for the database")
	}
	close(store.answers)
	if err := <-first; !errors.Is(err, resources.ErrUnavailable) {
		t.Error(err)
	}
}

// changedStore is a store that knows when definitions were last changed.
type changedStore struct {
	resources.View
	changed int64
}

func (s changedStore) Changed(string) int64 { return s.changed }

// Definitions are known to be served up to a revision if they have been read up to there, or have not changed since they were read.
func TestHasSeen(t *testing.T) {
	for _, c := range []struct {
		through, changed, revision int64
		want                       bool
	}{{5, 5, 5, true}, {5, 5, 9, true}, {5, 3, 9, true}, {5, 7, 5, true}, {5, 7, 6, false}, {5, 7, 9, false}, {0, 1, 1, false}} {
		d := New(Config{Registry: resources.NewRegistry(), Store: changedStore{changed: c.changed}, Logger: slog.New(slog.DiscardHandler)}, nil)
		d.through.Store(c.through)
		if got := d.HasSeen(c.revision); got != c.want {
			t.Errorf("read up to %d and changed at %d, seen up to %d: %t, want %t", c.through, c.changed, c.revision, got, c.want)
		}
	}
}
