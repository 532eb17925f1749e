package sqlstore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// term is a server that wants to lead.
type term struct {
	began, ended chan struct{}
	stop         func()
}

// elect makes a server campaign until stop.
func elect(t *testing.T, s *Store) *term {
	t.Helper()
	e := &term{began: make(chan struct{}, 10), ended: make(chan struct{}, 10)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.Session().Elect(ctx, func(ctx context.Context) {
			e.began <- struct{}{}
			<-ctx.Done()
			e.ended <- struct{}{}
		})
	}()
	e.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return e
}

// One of two servers leads: until it stops, and until its connection breaks.
func TestSessionElects(t *testing.T) {
	h := newPostgresHarness(t)
	h.reader = h.open(t)
	one := elect(t, h.store)
	<-one.began
	two := elect(t, h.reader)
	awaitAlive(t, h.store, 2)
	awaitAlive(t, h.reader, 2)
	one.stop()
	<-one.ended
	<-two.began // the server that stopped has notified it
	again := elect(t, h.store)
	lockedBy(t, h.store, h.reader)
	terminate(t, h, h.reader.Session())
	<-two.ended
	h.clock.Step(lookWhileBusy) // a server that uses the database notices
	h.store.Session().busy()
	h.reader.Session().busy()
	stop := []func(){two.stop, again.stop}
	select {
	case <-two.began:
	case <-again.began:
		slices.Reverse(stop)
	}
	stop[1]()
	stop[0]()
}

// Servers that end, in whatever way, are no longer alive; one that only lost its connection comes back.
func TestSessionAlive(t *testing.T) {
	h := newPostgresHarness(t)
	awaitAlive(t, h.store, 1)
	second, third := h.open(t), h.open(t)
	sees(t, second, 3)
	terminate(t, h, third.Session())
	sees(t, second, 3)
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	sees(t, second, 2)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	awaitAlive(t, h.store, 1)
	alive, err := h.store.Session().Alive(t.Context())
	if err != nil || !slices.Equal(alive, []string{h.store.Session().Self()}) {
		t.Errorf("%v %v", alive, err)
	}
}

// Control planes in one database do not see each other.
func TestSessionOfAnotherSchema(t *testing.T) {
	one, two := newPostgresHarness(t), newPostgresHarness(t)
	awaitAlive(t, one.store, 1)
	awaitAlive(t, two.store, 1)
	a, b := elect(t, one.store), elect(t, two.store)
	<-a.began
	<-b.began
	a.stop()
	b.stop()
}

// A server that is silent for long is disconnected, and comes back when it continues.
func TestSessionEndsStale(t *testing.T) {
	h := newPostgresHarness(t)
	h.limits = usualLimits
	h.limits.poll, h.limits.read = 100*time.Millisecond, time.Second
	hangs := h.openPeer(t)
	sees(t, h.store, 2)
	sees(t, hangs, 2)
	hangs.Session().mu.Lock() // its listener needs the lock
	awaitAlive(t, h.store, 1)
	hangs.Session().mu.Unlock()
	awaitAlive(t, h.store, 2)
}

// A server that knows of another one looks for changes without notifications, and a server that is alone does not.
func TestSessionLooksForTheUnheard(t *testing.T) {
	h := newPostgresHarness(t)
	h.limits = usualLimits
	h.limits.poll, h.limits.unheard = time.Hour, 20*time.Millisecond
	h.close(t)
	h.store = h.open(t)
	sees(t, h.store, 1)
	looked := func() time.Time {
		s := h.store.Session()
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.lookedAt
	}
	awaitLook(t, h.store) // the look that was requested
	time.Sleep(10 * h.limits.unheard)
	alone := looked()
	h.clock.Step(time.Second)
	time.Sleep(10 * h.limits.unheard)
	if !looked().Equal(alone) {
		t.Error("a server that is alone looks for news of others")
	}
	h.openPeer(t)
	sees(t, h.store, 2)
	for i, at := 0, looked(); i < 3; i++ {
		h.clock.Step(time.Second)
		for deadline := time.Now().Add(30 * time.Second); looked().Equal(at); {
			if time.Now().After(deadline) {
				t.Fatal("nobody looks")
			}
			time.Sleep(h.limits.unheard)
		}
		at = looked()
	}
}

// awaitLook waits until the last requested look of a server has begun.
func awaitLook(t *testing.T, s *Store) {
	t.Helper()
	for asked := true; asked && t.Context().Err() == nil; time.Sleep(time.Millisecond) {
		s.Session().mu.Lock()
		asked = s.Session().summoned
		s.Session().mu.Unlock()
	}
}

// sees waits until a server that looks sees so many servers.
func sees(t *testing.T, s *Store, n int) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		s.Session().mu.Lock()
		s.Session().ring()
		got, changed := len(s.Session().alive), s.Session().changed
		s.Session().mu.Unlock()
		if got == n {
			return
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond): // another server changes it, without a signal
		case <-timeout:
			t.Fatalf("sees %d, want %d", got, n)
		}
	}
}

func awaitAlive(t *testing.T, s *Store, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		alive, err := s.Session().Alive(ctx)
		if err != nil {
			t.Fatalf("%d of %d: %v", len(alive), n, err)
		}
		if len(alive) == n {
			return
		}
		time.Sleep(5 * time.Millisecond) // the other server gives no signal
	}
}

// lockedBy waits until a server has looked and not got the lock, which another server has.
func lockedBy(t *testing.T, s, other *Store) {
	t.Helper()
	s.Session().summon()
	if err := s.peers.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leads, _ := s.Session().leading(); leads {
		t.Error("two lead")
	}
	if leads, _ := other.Session().leading(); !leads {
		t.Error("nobody leads")
	}
}

// terminate ends the connection of a session.
func terminate(t *testing.T, h *postgresHarness, s *Session) {
	t.Helper()
	const end = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
AND classid = $1::int::oid AND objid = $2::int::oid`
	tag, err := h.store.peers.db.pool.Exec(t.Context(), end, s.class, s.id)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%v %v", tag, err)
	}
}

// If a role acts as the owner of the tables, a server can still end its own lost connections, and those of a server of that role that hangs: the
// connections belong to the role that connected.
func TestSessionOfActingRole(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t)
	conn := admin(t, c.URL())
	for _, statement := range []string{"CREATE ROLE owner", "GRANT CREATE ON DATABASE postgres TO owner", "CREATE ROLE app LOGIN NOINHERIT IN ROLE owner",
		"ALTER ROLE app SET role = 'owner'"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	h := newPostgresHarnessAt(t, strings.Replace(c.URL(), "user=postgres", "user=app", 1))
	awaitAlive(t, h.store, 1)
	again := admin(t, h.url)
	if _, err := again.Exec(ctx, setSearchPathOf(h.schema)); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Session().enter(ctx, again); err != nil {
		t.Errorf("a connection in the place of the one that listens: %v", err)
	}
	hasten(t, h.store)
	hangs := admin(t, h.url)
	if _, err := hangs.Exec(ctx, setSearchPathOf(h.schema)+"; BEGIN; SELECT FROM meta FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond)
	h.store.peers.db.evict()
	if _, err := hangs.Exec(ctx, "COMMIT"); err == nil {
		t.Error("who has the counter and does not go on was not ended")
	}
}

// A role's time limits do not end a session that begins while another server holds the counter.
func TestSessionTakesItsTime(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	h.close(t)
	h.limits = usualLimits
	h.limits.read = 4 * time.Second // half of it for the counter
	h.store = h.open(t)
	sees(t, h.store, 1) // before that, its own session would wait for the counter as well
	holder := admin(t, c.URL())
	if _, err := holder.Exec(ctx, setSearchPathOf(h.schema)+"; BEGIN; SELECT FROM meta FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	beImpatient(t, admin(t, c.URL()))
	conn := admin(t, c.URL())
	if _, err := conn.Exec(ctx, setSearchPathOf(h.schema)); err != nil {
		t.Fatal(err)
	}
	if err := newSession(h.store, h.store.Session().class).enter(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_sleep(1.5)"); err != nil {
		t.Errorf("after it has begun: %v", err)
	}
}

// A server ends a connection of another user that hangs if its own role may see and end it.
func TestEvictsOtherUser(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t)
	conn := admin(t, c.URL())
	for _, statement := range []string{"CREATE ROLE owner", "GRANT CREATE ON DATABASE postgres TO owner", "CREATE ROLE app LOGIN IN ROLE owner, pg_signal_backend, pg_read_all_stats",
		"ALTER ROLE app SET role = 'owner'", "CREATE ROLE other LOGIN IN ROLE owner", "ALTER ROLE other SET role = 'owner'"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) string { return strings.Replace(c.URL(), "user=postgres", "user="+user, 1) }
	h := newPostgresHarnessAt(t, as("app"))
	hasten(t, h.store)
	hangs := admin(t, as("other"))
	if _, err := hangs.Exec(ctx, setSearchPathOf(h.schema)+"; BEGIN; SELECT FROM meta FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond)
	h.store.peers.db.evict()
	if _, err := hangs.Exec(ctx, "COMMIT"); err == nil {
		t.Error("who has the counter and does not go on was not ended")
	}
}

func setSearchPathOf(schema string) string {
	return "SET search_path = " + pgx.Identifier{schema}.Sanitize()
}

// The lock of a server that writes views has a number beyond those of servers. It does not count as a server while servers are known by their locks.
func TestLookBesideViews(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	awaitAlive(t, h.store, 1) // a server has its lock before its row
	tx, err := h.connect(t).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // the transaction is only for the locks
	session := h.store.Session()
	if _, err := tx.Exec(ctx, "UPDATE meta SET revision = floor"); err != nil { // as in schema version 1
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", session.class, viewsLock); err != nil {
		t.Fatal(err)
	}
	var l look
	if err := l.ask(ctx, tx, session, false); err != nil || !l.legacy {
		t.Fatalf("%+v, %v", l, err)
	}
	var there bool
	if err := tx.QueryRow(ctx, legacySQL, session.class).Scan(&there); err != nil || there {
		t.Errorf("a server of the version before is there: %v, %v", there, err)
	}
}
