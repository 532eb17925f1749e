package sqlstore

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// pooler starts a PgBouncer in front of the cluster that tests share.
func pooler(t *testing.T) *pgtest.Pooler {
	t.Helper()
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	return poolerBefore(t, c)
}

// poolerBefore starts a PgBouncer in front of a cluster.
func poolerBefore(t *testing.T, c *pgtest.Cluster) *pgtest.Pooler {
	t.Helper()
	p, err := c.Pooler()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// The suite passes through a PgBouncer in transaction mode: nothing depends on the state of a session.
func TestPostgresThroughPooler(t *testing.T) {
	p := pooler(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newPostgresHarnessAt(t, p.URL()).harness() })
}

// Two servers behind a pooler, in a schema of their own beside others: each reads the other's writes at once, and finds
// by looking those that no notification reports.
func TestServersBehindPooler(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarnessAt(t, pooler(t).URL())
	other := newPostgresHarnessAt(t, h.url)
	h.limits = usualLimits
	h.limits.poll = 50e6
	servers := []*Store{h.openPeer(t), h.openPeer(t)}
	if !servers[0].peers.db.pooled {
		t.Error("the pooler was not noticed")
	}
	start := servers[0].position.revision
	var watches []resources.Watch
	for _, s := range servers {
		w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watches = append(watches, w)
	}
	var wg sync.WaitGroup
	l := startLoad(t, servers...)
	foreign := startLoad(t, other.store)
	wg.Go(func() {
		for range 50 {
			made := mustCommit(t, servers[0], countTo(t, 1, nil))[0]
			if got, err := servers[1].Get(ctx, made.Key, resources.At{}); err != nil || got.Revision != made.Revision {
				t.Errorf("the other server: %v, %v", got, err)
			}
			mustCommit(t, servers[1], resources.Write{Op: resources.Delete, Key: made.Key, From: made.Revision})
		}
	})
	wg.Wait()
	l.more(ctx, t, 50)
	foreign.stop()
	l.stop()
	l.check(ctx, t, watches[1], servers...)
	if events := collect(ctx, t, watches[0], "end"); int64(len(events)) != l.count.Load()+101 {
		t.Errorf("%d events of %d writes", len(events), l.count.Load()+101)
	}
	if snap, err := other.store.Snapshot(context.Background(), "configmaps", resources.At{}); err != nil ||
		int64(snap.Count("", "")) != foreign.count.Load() {
		t.Errorf("the other control plane: %v", err)
	}
}

// told signals when a log has a line with a text.
type told struct {
	text string
	once sync.Once
	done chan struct{}
}

func (w *told) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(w.text)) {
		w.once.Do(func() { close(w.done) })
	}
	return len(line), nil
}

// Behind a pooler, a failed look is repeated soon, not only when the next one is due.
func TestLooksAgainBehindPooler(t *testing.T) {
	ctx := testContext(t)
	direct, c := newBreakable(t)
	h := *direct
	h.url, h.limits = poolerBefore(t, c).URL(), usualLimits
	h.limits.poll, h.limits.unheard = 4*time.Second, 4*time.Second
	failed := &told{text: "could not be read", done: make(chan struct{})}
	o := h.options()
	o.Logger = slog.New(slog.NewTextHandler(failed, nil))
	s := mustOpen(t, o)
	defer s.Close()
	w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: s.position.revision})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	mustCommit(t, direct.store, createMap(t, "meanwhile"))
	conn := admin(t, c.URL())
	rename := func(from, to string) {
		t.Helper()
		if _, err := conn.Exec(ctx, `ALTER SCHEMA "`+from+`" RENAME TO "`+to+`"`); err != nil {
			t.Fatal(err)
		}
	}
	rename(h.schema, "away")
	select {
	case <-failed.done:
	case <-ctx.Done():
		t.Fatal("nobody looked")
	}
	rename("away", h.schema)
	soon, end := context.WithTimeout(ctx, 3*time.Second)
	defer end()
	collect(soon, t, w, "meanwhile")
}
