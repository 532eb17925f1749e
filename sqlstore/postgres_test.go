package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

func TestPostgres(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newPostgresHarness(t).harness() })
}

// The suite passes with writes through one server, and reads and watches through another.
func TestPostgresTwoServers(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		h := newPostgresHarness(t)
		h.reader = h.open(t)
		return h.harness()
	})
}

// postgresHarness is a store in a schema of its own, with little of its history in memory.
type postgresHarness struct {
	url, schema string
	clock       *clocktesting.FakeClock
	store       *Store
	reader      *Store // nil: reads go through store, too
	limits      limits // for stores that are opened from now on; zero: the usual ones
}

var schemas atomic.Int64

func newPostgresHarness(t *testing.T) *postgresHarness {
	t.Helper()
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	return newPostgresHarnessAt(t, c.URL())
}

func newPostgresHarnessAt(t *testing.T, url string) *postgresHarness {
	t.Helper()
	h := &postgresHarness{url: url, schema: fmt.Sprintf("Test %d", schemas.Add(1)),
		clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	h.store = h.open(t)
	t.Cleanup(func() { h.close(t) })
	return h
}

func (h *postgresHarness) options() Options {
	return Options{URL: h.url, Schema: h.schema, HistoryAge: storetest.HistoryAge, LogSize: 16 << 10, Clock: h.clock, limits: h.limits,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func (h *postgresHarness) open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(context.Background(), h.options())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (h *postgresHarness) close(t *testing.T) {
	t.Helper()
	for _, s := range []*Store{h.store, h.reader} {
		if s == nil {
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func (h *postgresHarness) harness() storetest.Harness {
	return storetest.Harness{
		Store:   h.both(),
		Advance: h.clock.Step,
		Prune: func(t *testing.T) {
			h.clock.Step(2 * storetest.HistoryAge)
			h.prune(t)
		},
		PruneDue: h.prune,
		Restart: func(t *testing.T) resources.Store {
			h.close(t)
			h.store = h.open(t)
			if h.reader != nil {
				h.reader = h.open(t)
			}
			return h.both()
		},
		// After a server has ended, only the database's content remains.
		Crash: func(t *testing.T) resources.Store {
			left := h.open(t)
			t.Cleanup(func() { left.Close() })
			return left
		},
		Peer:  func(t *testing.T) resources.Store { return h.openPeer(t) },
		Close: h.close,
	}
}

func (h *postgresHarness) prune(t *testing.T) {
	t.Helper()
	if _, err := h.store.janitor.prune(); err != nil {
		t.Errorf("prune: %v", err)
	}
	if h.reader != nil {
		if err := h.reader.peers.catchUp(context.Background(), h.reader.peers.db, 0); err != nil {
			t.Error(err)
		}
	}
}

func (h *postgresHarness) both() resources.Store {
	if h.reader == nil {
		return h.store
	}
	return twoServers{h.reader, h.store}
}

// twoServers writes through one store and reads through another. The suite looks at a watch or at "any" right after a
// commit, so the reader catches up with each commit; "most recent" is tested elsewhere.
type twoServers struct {
	*Store
	writer *Store
}

func (s twoServers) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	objects, err := s.writer.Commit(ctx, writes...)
	if err != nil || len(objects) == 0 {
		return objects, err
	}
	last := slices.MaxFunc(objects, func(a, b *resources.Object) int { return cmp.Compare(a.Revision, b.Revision) }) // the last may be an Expect's
	if err := s.peers.catchUp(ctx, s.peers.db, last.Revision); err != nil && !s.closing.Load() {
		return nil, err // an error of a closed reader is ignored: it gets no requests, and the commit happened
	}
	// The reader's own listener may bring it up to date. Then reads see a change before it is announced to watches.
	s.applying.Lock()
	s.applying.Unlock()         //nolint:staticcheck // only waits: the previous holder has announced its changes
	for i, o := range objects { // the reader's objects: two servers share no memory
		if own, err := s.Get(ctx, o.Key, resources.At{Match: resources.Any}); err == nil && own.Revision == o.Revision {
			objects[i] = own
		}
	}
	return objects, nil
}
