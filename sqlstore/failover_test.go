package sqlstore

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// settled returns a snapshot after the cache has been loaded again, if needed.
func settled(ctx context.Context, t *testing.T, s *Store) resources.Snapshot {
	t.Helper()
	for {
		snap, err := s.Snapshot(ctx, "configmaps", resources.At{})
		if err == nil {
			return snap
		}
		if !errors.Is(err, resources.ErrUnavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func wantExpired(ctx context.Context, t *testing.T, s *Store, after int64) {
	t.Helper()
	var expired *resources.ExpiredError
	if _, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: after}); !errors.As(err, &expired) {
		t.Errorf("a watch from revision %d: %v, want an ExpiredError", after, err)
	}
}

// After a failover to a replica that lost the last commits, no revision is assigned twice, even if the servers that saw
// the lost ones are gone, and others write first.
func TestFailover(t *testing.T) {
	ctx := testContext(t)
	h, primary := newBreakable(t)
	kept := mustCommit(t, h.store, createMap(t, "kept"))[0]
	replica := newReplica(t, primary)
	standby := h.options()
	standby.URL = replica.URL()
	if s, err := Open(ctx, standby); err == nil {
		s.Close()
		t.Error("a standby was opened")
	}
	h.url = pgtest.FailoverURL(replica, primary)
	server := h.openPeer(t)
	mustCommit(t, server, createMap(t, "kept too"))
	conn := admin(t, primary.URL())
	awaitSQL(ctx, t, conn, "EXISTS (SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn())")
	// The replica is away when the last commit is made.
	if err := replica.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	replica.Wait()
	lost := mustCommit(t, server, createMap(t, "lost"))[0]
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	if err := replica.Promote(); err != nil {
		t.Fatal(err)
	}
	fresh := h.openPeer(t) // has not seen the lost commits
	next := mustCommit(t, fresh, createMap(t, "next"))[0]
	if next.Revision <= lost.Revision {
		t.Errorf("revision %d was given after %d", next.Revision, lost.Revision)
	}
	for _, s := range []*Store{fresh, server} {
		snap := settled(ctx, t, s)
		if snap.Get("default", "lost") != nil || snap.Get("default", "next") == nil || snap.Get("default", kept.Name) == nil ||
			snap.Get("default", "kept too") == nil {
			t.Errorf("%d objects are not those of the new primary", snap.Count("", ""))
		}
		wantExpired(ctx, t, s, kept.Revision)
	}
	if made := mustCommit(t, server, createMap(t, "lost"))[0]; made.Revision != next.Revision+1 {
		t.Errorf("revision %d came after %d", made.Revision, next.Revision)
	}
}

// A restored dump does not continue the database that it was made of, even for servers that were not running then.
func TestRestoredDump(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	kept := mustCommit(t, h.store, createMap(t, "kept"))[0]
	dump := c.Dir() + "/dump"
	if err := c.Run("pg_dump", "--format=custom", "--file", dump, "postgres"); err != nil {
		t.Fatal(err)
	}
	lost := mustCommit(t, h.store, createMap(t, "lost"))[0]
	if err := c.Run("pg_restore", "--clean", "--dbname=postgres", dump); err != nil {
		t.Fatal(err)
	}
	fresh := h.openPeer(t)
	for i, s := range []*Store{fresh, h.store} {
		next := mustCommit(t, s, createMap(t, []string{"next", "then"}[i]))[0]
		if next.Revision <= lost.Revision {
			t.Errorf("revision %d was given after %d", next.Revision, lost.Revision)
		}
	}
	for _, s := range []*Store{fresh, h.store} {
		if snap := settled(ctx, t, s); snap.Count("", "") != 3 || snap.Get("default", "lost") != nil {
			t.Errorf("%d objects are not those that were restored", snap.Count("", ""))
		}
		wantExpired(ctx, t, s, kept.Revision)
	}
}

// If the same dump is restored twice, no resourceVersion is assigned twice, although no server remembers the first
// time.
func TestDumpRestoredTwice(t *testing.T) {
	h, c := newBreakable(t)
	mustCommit(t, h.store, createMap(t, "kept"))
	h.close(t)
	dump := c.Dir() + "/dump"
	if err := c.Run("pg_dump", "--format=custom", "--file", dump, "postgres"); err != nil {
		t.Fatal(err)
	}
	var last int64
	for i := range 3 {
		if err := c.Run("pg_restore", "--clean", "--dbname=postgres", dump); err != nil {
			t.Fatal(err)
		}
		s := h.openPeer(t)
		made := mustCommit(t, s, createMap(t, "a"), createMap(t, "b"))
		if made[0].Revision <= last || made[0].Revision < 1<<50 {
			t.Errorf("revision %d was given after %d", made[0].Revision, last)
		}
		last = made[1].Revision
		if err := s.Close(); err != nil {
			t.Errorf("close of server %d: %v", i, err)
		}
	}
}

// If the clock is behind, a jump still leads beyond the revisions that a server remembers, and to different places.
func TestJumpBeyondTheClock(t *testing.T) {
	h := newPostgresHarness(t)
	const remembered = 1 << 60
	seen := map[int64]bool{}
	for range 2 {
		if err := h.store.peers.db.run("UPDATE meta SET revision = 5").scan(); err != nil {
			t.Fatal(err)
		}
		if jumped, err := h.store.peers.db.settle(position{revision: remembered}); err != nil || !jumped {
			t.Fatalf("jumped: %v, %v", jumped, err)
		}
		revision, err := h.store.peers.db.counter(t.Context())
		if err != nil || revision <= remembered || seen[revision] {
			t.Errorf("the counter jumped to %d, %v", revision, err)
		}
		seen[revision] = true
	}
}

// The least privileges suffice: those of a role that owns only its schema, which an administrator created, or that may
// create schemas in the database.
func TestLeastPrivileges(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	conn := admin(t, c.URL())
	if _, err := conn.Exec(ctx, `CREATE ROLE app LOGIN; CREATE SCHEMA theirs AUTHORIZATION app; CREATE ROLE lesser LOGIN`); err != nil {
		t.Fatal(err)
	}
	o := h.options()
	o.URL = strings.Replace(c.URL(), "user=postgres", "user=app", 1)
	o.Schema = "theirs"
	for range 2 {
		s, err := Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Commit(ctx, resources.Write{Op: resources.Create, Key: configMap("default", "a"), Draft: draft(t, "default", "a")})
		if err != nil && !errors.Is(err, resources.ErrExists) {
			t.Error(err)
		}
		if err := s.Ready(ctx); err != nil {
			t.Error(err)
		}
		if _, err := s.db.size(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	o.Schema = "missing"
	if s, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a schema that may not be created: %v", err)
		if err == nil {
			s.Close()
		}
	}
}

// A name that Postgres would cut is refused, and no error contains a password.
func TestPostgresOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"long schema": {URL: "postgres://user:secret@127.0.0.1:1/db", Schema: strings.Repeat("s", 64)},
		"nobody":      {URL: "postgres://user:secret@127.0.0.1:1/db?sslmode=disable"},
		"port":        {URL: "postgres://user:secret@host:port/db"},
		"parameter":   {URL: "postgres://user:secret@host/db?sslmode=sometimes"},
		"escape":      {URL: "postgres://user:secret%@host/db"},
		"keyword":     {URL: "host=h user=u password=secret"},
	} {
		s, err := Open(context.Background(), o)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the password: %v", name, err)
		}
	}
}
