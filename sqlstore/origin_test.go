package sqlstore

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// History is not read from another database than the one that the cache was read from.
func TestHistoryOfAnotherPlace(t *testing.T) {
	ctx := testContext(t)
	s := newPostgresHarness(t).store
	made := mustCommit(t, s, createMap(t, "a"), createMap(t, "b"))
	q := historyQuery{resource: "configmaps", after: made[0].Revision, upTo: made[1].Revision, limit: 10}
	healed := func() {
		done := make(chan struct{})
		s.queue.putTask(func() { close(done) })
		<-done
	}
	refused := func(why string, arrange func()) {
		t.Helper()
		s.applying.Lock() // so that the cache does not change meanwhile
		arrange()
		if answer, err := s.db.history(ctx, q); !errors.Is(err, resources.ErrUnavailable) || len(answer.events) > 0 {
			t.Errorf("%s: %d events, %v; want ErrUnavailable", why, len(answer.events), err)
		}
		s.applying.Unlock()
		healed()
	}
	refused("the connection leads elsewhere", func() { s.db.origin.noted("a primary that was replaced") })
	if answer, err := s.db.history(ctx, q); err != nil || len(answer.events) != 1 {
		t.Errorf("after the cache was brought up: %d events, %v", len(answer.events), err)
	}
	refused("the database was restored", func() { s.exec(t, "UPDATE meta SET origin = 'elsewhere'") })
	var expired *resources.ExpiredError
	if _, err := s.db.history(ctx, q); !errors.As(err, &expired) {
		t.Errorf("after the counter jumped: %v, want an ExpiredError", err)
	}
}
