package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// A server that gets no connection to listen through, but has others, still delivers other servers' writes to watches.
func TestWatchesGoOnWithoutAListener(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	conn := admin(t, c.URL())
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(ctx, statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app`)
	h.url, h.schema = strings.Replace(c.URL(), "user=postgres", "user=app", 1), "app"
	writer, deaf := h.openPeer(t), h.openPeer(t)
	first := mustCommit(t, writer, createMap(t, "first"))[0]
	if _, err := deaf.Get(ctx, first.Key, resources.At{}); err != nil { // leaves a connection that reads
		t.Fatal(err)
	}
	w, err := deaf.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: first.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	exec(`ALTER ROLE app CONNECTION LIMIT 1`) // for new connections: existing ones stay
	exec(`SELECT pg_terminate_backend(pid) FROM app.servers WHERE id = $1`, deaf.Session().id)
	deafened, end := context.WithTimeout(ctx, usualLimits.unheard)
	defer end()
	mustCommit(t, writer, createMap(t, "second"))
	collect(deafened, t, w, "second")
}

// A server that is stopped while it holds the counter blocks the others for seconds, not for ever.
func TestStoppedServerReleasesTheCounter(t *testing.T) {
	h := newPostgresHarness(t)
	stopped := h.openPeer(t)
	stopped.applying.Lock()
	tx, _, err := stopped.db.begin(stopped.position.revision)
	stopped.applying.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.store, createMap(t, "a")) // the database ends the other transaction first
	if err := tx.commit(&batch{revision: 1}); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("a commit that comes too late: %v, want ErrUnavailable", err)
	}
	mustCommit(t, stopped, createMap(t, "b"))
}

// Without a free connection, and with statements that are ended by a time limit, writes fail as unavailable; afterwards
// everything recovers.
func TestPostgresRefuses(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	conn := admin(t, c.URL())
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app`)
	h.url, h.schema = strings.Replace(c.URL(), "user=postgres", "user=app", 1), "app"
	s := h.openPeer(t)
	first := mustCommit(t, s, createMap(t, "first"))[0]
	refused := func(name string) {
		t.Helper()
		if _, err := s.Commit(ctx, createMap(t, name)); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
		if _, err := s.Get(ctx, first.Key, resources.At{Match: resources.Any}); err != nil {
			t.Errorf("%s: get at any: %v", name, err)
		}
		if err := s.Ready(ctx); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("%s: ready: %v", name, err)
		}
	}
	const terminate = `; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'`
	exec(`ALTER ROLE app CONNECTION LIMIT 0` + terminate)
	refused("no connection")
	exec(`ALTER ROLE app CONNECTION LIMIT -1`)
	mustCommit(t, s, createMap(t, "second"))

	exec(`ALTER ROLE app SET statement_timeout = '100ms'` + terminate)
	exec(`BEGIN; SELECT * FROM app.meta FOR UPDATE`)
	refused("statement timeout")
	exec(`COMMIT`)
	mustCommit(t, s, createMap(t, "third"))
	if err := s.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
}
