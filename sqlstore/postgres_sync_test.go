package sqlstore

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// hasten shortens the time limits of a server's writes, for tests in which the database will not answer.
func hasten(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.janitor.task(func() error {
		l := &s.peers.db.limits // the fields that belong to the committer's goroutine
		l.step, l.lock, l.idle, l.lookUp = 1500*time.Millisecond, time.Second, time.Second, 1500*time.Millisecond
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// commitSoon commits when the database can be used again.
func commitSoon(ctx context.Context, t *testing.T, s *Store, w resources.Write) *resources.Object {
	t.Helper()
	for {
		made, err := s.Commit(ctx, w)
		if err == nil {
			return made[0]
		}
		if !errors.Is(err, resources.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

// awaitSQL returns when a condition is true in the database.
func awaitSQL(ctx context.Context, t *testing.T, conn *pgx.Conn, condition string) {
	t.Helper()
	for met := false; !met; {
		// Separate statements: within one, a session ignores new settings.
		if err := conn.QueryRow(ctx, "SELECT "+condition).Scan(&met); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, "SELECT pg_sleep(0.01)"); err != nil {
			t.Fatal(err)
		}
	}
}

func newReplica(t *testing.T, primary *pgtest.Cluster) *pgtest.Cluster {
	t.Helper()
	replica, err := primary.Replica()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := replica.Stop(); err != nil {
			t.Error(err)
		}
	})
	return replica
}

// With synchronous replication and the standby gone, COMMIT hangs. No answer says that it happened or that it did not,
// and no read shows it, because a failover could undo it; not even if an administrator ends the database's waiting.
// When the standby is back, so are the writes. All of that also holds if the database is configured to send no
// warnings.
func TestStandbyGone(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	h, primary := newBreakable(t)
	replica := newReplica(t, primary)
	conn := admin(t, primary.URL())
	for _, statement := range []string{"ALTER SYSTEM SET client_min_messages = error", "ALTER SYSTEM SET synchronous_standby_names = '*'",
		"SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	awaitSQL(ctx, t, conn, "EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')")
	servers := []*Store{h.store, h.openPeer(t)}
	first := mustCommit(t, servers[0], createMap(t, "first"))[0]
	watch, err := servers[1].Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: first.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	hasten(t, servers[0])
	hasten(t, servers[1])

	leave := func() {
		t.Helper()
		if err := replica.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		replica.Wait()
		awaitSQL(ctx, t, conn, "NOT EXISTS (SELECT 1 FROM pg_stat_replication)")
	}
	leave()
	if _, err := servers[0].Commit(ctx, createMap(t, "held")); !errors.Is(err, resources.ErrUnknownOutcome) {
		t.Errorf("a commit that waits for the standby: %v, want ErrUnknownOutcome", err)
	}
	for i, s := range servers {
		if _, err := s.Commit(ctx, createMap(t, "refused")); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("server %d: a commit after it: %v, want ErrUnavailable", i, err)
		}
		if err := s.Ready(ctx); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("server %d: ready: %v", i, err)
		}
		if snap, err := s.Snapshot(ctx, "configmaps", resources.At{}); err != nil || snap.Count("", "") != 1 {
			t.Errorf("server %d shows what is not safe: %v", i, err)
		}
	}
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	commitSoon(ctx, t, servers[1], createMap(t, "second"))

	leave()
	answered := make(chan error)
	go func() {
		_, err := servers[0].Commit(ctx, createMap(t, "canceled"))
		answered <- err
	}()
	const waits = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'"
	awaitSQL(ctx, t, conn, "EXISTS (SELECT 1 "+waits+")")
	if _, err := conn.Exec(ctx, "SELECT pg_cancel_backend(pid) "+waits); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; !errors.Is(err, resources.ErrUnknownOutcome) {
		t.Errorf("a commit that no longer waits for the standby: %v, want ErrUnknownOutcome", err)
	}
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	commitSoon(ctx, t, servers[0], createMap(t, "end"))
	last := first.Revision
	var names []string
	for _, e := range collect(ctx, t, watch, "end") {
		if last++; e.Revision != last {
			t.Errorf("revision %d, want %d", e.Revision, last)
		}
		names = append(names, e.Object.Name)
	}
	if len(names) != 4 {
		t.Errorf("events: %v", names)
	}
	for i, s := range servers {
		if err := s.Ready(ctx); err != nil {
			t.Errorf("server %d: ready: %v", i, err)
		}
	}
}
