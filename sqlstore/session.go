package sqlstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Session is this server's place among the servers that share a database. It lives as long as the connection that
// listens for changes: advisory locks are held through it, one that shows the others that this server lives, and, on
// one server at a time, the lock of the controllers. Postgres frees them when the connection ends, however that
// happens, so nothing has to be renewed. The table servers lists the possible holders: a search through all locks of a
// cluster would cost more, the more control planes there are. The state of the locks is read when the database is
// queried anyway, and every limits.poll.
type Session struct {
	id    int32 // of this server, at least 1
	class int32 // of the locks, which are shared by the whole database: it differs between control planes
	store *Store

	mu        sync.Mutex
	wanted    bool // Elect is under way
	leads     bool
	alive     []int32
	lookedAt  time.Time
	changed   chan struct{} // closed and replaced when leads or alive changes
	interrupt func()        // ends the wait of the listener; nil when it does not wait
	summoned  bool          // the listener is to look before it waits again
}

const (
	// lookWhileBusy is how long the state of the locks may be unknown while the database is in use.
	lookWhileBusy = 5 * time.Second
	// releaseTimeout bounds how long a server that stops waits until it no longer leads. The end of its connection,
	// which follows, has the same effect.
	releaseTimeout = 2 * time.Second

	// succeedSQL ends this server's previous connection, which may still live for the database: if the network has lost
	// it, the database does not know, and the lock would be held until the kernel or another server finds out.
	succeedSQL = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
AND mode = 'ExclusiveLock' AND classid = $1::int::oid AND objid = $2::int::oid AND pid <> pg_backend_pid()
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

	// patientSQL removes the time limits of a role, which would end the session while it waits for the counter, for
	// example. Callers limit all statements themselves. Only Postgres 17 and later have transaction_timeout.
	patientSQL = `SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')`

	// enterSQL takes the lock of a server. Its settings let the kernel notice a machine that is gone, and the database
	// a server that hangs and sends no queries any more. This connection's writes need not survive it: hence
	// synchronous_commit off.
	enterSQL = `SELECT pg_advisory_lock($1, $2), set_config('tcp_keepalives_idle', '10', false),
set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false),
set_config('tcp_user_timeout', $3::text, false), set_config('idle_session_timeout', $3::text, false),
set_config('lock_timeout', $4::text, false), set_config('synchronous_commit', 'off', false)`

	registerSQL = `INSERT INTO servers (id, pid) VALUES ($1, pg_backend_pid()) ON CONFLICT (id) DO UPDATE SET pid = excluded.pid`

	unregisterSQL = `DELETE FROM servers WHERE id = $1`

	// removeDeadServersSQL deletes the servers whose lock is free. It holds the lock until the row is gone, and a
	// server writes its row after it has got the lock: so the row of a server that comes back is not deleted.
	removeDeadServersSQL = `DELETE FROM servers s WHERE CASE WHEN s.id = $2 THEN false ELSE pg_try_advisory_xact_lock_shared($1, s.id) END`

	// awaitCommitSQL waits until a transaction that holds the counter is over.
	awaitCommitSQL = `SELECT 1 FROM meta FOR UPDATE`

	// legacyLocksSQL returns the locks of servers, including those of schema version 1, which are not in the table.
	// A server that tests whether a lock is free takes it in shared mode for that moment, so only exclusive locks
	// count. The lock of views (viewsLock) has a number beyond those of servers.
	legacyLocksSQL = `SELECT l.objid::bigint AS id FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
  AND l.mode = 'ExclusiveLock' AND l.classid = $1::int::oid AND l.objid::bigint BETWEEN 1 AND 2147483647 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

	// lookSQL is the one statement of an idle server: whether the log has something new and still belongs to the
	// database that it was read from, which servers live, and whether the lock of the controllers is free.
	lookSQL = `SELECT ` + counterSQL + `, m.floor, m.origin = ` + actualSQL + `, m.revision IS NOT NULL, (SELECT count(*) FROM servers),
CASE WHEN m.revision IS NULL THEN ARRAY(SELECT s.id FROM servers s WHERE
  CASE WHEN s.id = $3 AND s.pid = pg_backend_pid() THEN true ELSE NOT pg_try_advisory_xact_lock_shared($1, s.id) END)
ELSE ARRAY(SELECT id::int FROM (` + legacyLocksSQL + `) AS held) END,
CASE WHEN $2 THEN pg_try_advisory_lock($1, 0) ELSE false END FROM meta m`

	leaveSQL = `SELECT pg_advisory_unlock($1, 0), (SELECT pg_notify($2, '') WHERE ` + roomSQL + `)`
)

func newSession(s *Store, class int32) *Session {
	return &Session{id: rand.Int32N(1<<31-1) + 1, class: class, store: s, changed: make(chan struct{})}
}

// Session returns this server's place among those on its database. It is nil for SQLite, which has no other servers, and
// behind a pooler, where the other servers cannot be known.
func (s *Store) Session() *Session {
	if s.peers == nil {
		return nil
	}
	return s.peers.session
}

// Shared reports whether other servers may use the database.
func (s *Store) Shared() bool { return s.peers != nil }

func (s *Session) limits() *limits { return &s.store.peers.db.limits }

// stale is how long a server may be silent on its connection before the database ends it, because the server hangs or
// its machine is gone: three intervals in which it should have looked.
func (s *Session) stale() time.Duration { return 3*s.limits().poll + s.limits().read }

// Self is the name of this server, unique among the servers.
func (s *Session) Self() string { return strconv.Itoa(int(s.id)) }

// knowsOthers reports whether another server lived at the last look.
func (s *Session) knowsOthers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.alive, func(id int32) bool { return id != s.id })
}

// Changed returns a channel that is closed when other servers have come or gone, or this one has come back.
func (s *Session) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Alive returns the names of the servers that live, as of now. Errors: resources.ErrUnavailable, the context's.
func (s *Session) Alive(ctx context.Context) ([]string, error) {
	var found look
	bounded, cancel := context.WithTimeout(ctx, s.limits().read)
	defer cancel()
	err := retryDead(postgresReaders, func() (bool, error) {
		return true, found.ask(bounded, s.store.peers.db.pool, s, false)
	})
	if err != nil {
		return nil, hung(ctx, err)
	}
	names := make([]string, len(found.alive))
	for i, id := range found.alive {
		names[i] = strconv.Itoa(int(id))
	}
	return names, nil
}

// Elect calls lead while this server holds the lock of the controllers, with a context that ends when it loses the
// lock, again and again until ctx ends. Another server may take over when it returns. One call at a time.
func (s *Session) Elect(ctx context.Context, lead func(context.Context)) error {
	s.campaign(true)
	defer s.release()
	for {
		leads, changed := s.leading()
		if leads {
			s.leadWhile(ctx, lead)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (s *Session) leadWhile(ctx context.Context, lead func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for leads, changed := s.leading(); leads; leads, changed = s.leading() {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	})
	lead(ctx)
	cancel()
	watching.Wait()
}

// release gives the lock back, and returns when it is free.
func (s *Session) release() {
	s.campaign(false)
	timeout := time.NewTimer(releaseTimeout)
	defer timeout.Stop()
	for {
		leads, changed := s.leading()
		if !leads {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			return
		}
	}
}

func (s *Session) leading() (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads, s.changed
}

func (s *Session) campaign(wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = wanted
	s.ring()
}

// busy makes the listener look, if it has not for a while: the database is in use, so one more query does no harm.
func (s *Session) busy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store.clock.Since(s.lookedAt) >= lookWhileBusy {
		s.ring()
	}
}

// summon makes the listener look.
func (s *Session) summon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring()
}

// ring is called with mu.
func (s *Session) ring() {
	s.summoned = true
	if s.interrupt != nil {
		s.interrupt()
	}
}

// waiting sets how to end the wait that is about to begin, and reports whether it should not begin at all.
func (s *Session) waiting(interrupt func()) (summoned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt = interrupt
	return s.summoned
}

// enter begins a session on the connection that listens. When it returns, every transaction that writes to the log either
// notifies this connection or is over: a transaction that did not see the row in servers held the counter when the row was
// written, and enter waits for it.
func (s *Session) enter(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits().read)
	defer cancel()
	succeed := &pgx.Batch{}
	succeed.Queue(patientSQL)
	succeed.Queue(asItselfSQL)
	succeed.Queue(succeedSQL, s.class, s.id)
	if err := conn.SendBatch(ctx, succeed).Close(); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, enterSQL, s.class, s.id, milli(s.stale()), milli(s.limits().read/2)); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, registerSQL, s.id); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, awaitCommitSQL)
	if isLockTimeout(err) {
		// A commit waits for a synchronous standby, perhaps for long. Its changes are found at the next look at the
		// log.
		s.store.logger.Warn("a commit of another server hangs, its changes may be seen late", "error", err)
		return nil
	}
	return err
}

// exit ends a session in good order, so that no server notifies it any more.
func (s *Session) exit(ctx context.Context, conn *pgx.Conn) {
	if _, err := conn.Exec(ctx, unregisterSQL, s.id); err != nil { // the connection was ended in the middle of a statement
		_, _ = s.store.peers.db.pool.Exec(ctx, unregisterSQL, s.id) // if this fails too, another server finds the lock free
	}
}

func milli(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// leave notes that the connection has ended, and its locks with it.
func (s *Session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(false, nil)
}

// set is called with mu.
func (s *Session) set(leads bool, alive []int32) {
	if leads == s.leads && slices.Equal(alive, s.alive) {
		return
	}
	s.leads, s.alive = leads, alive
	close(s.changed)
	s.changed = make(chan struct{})
}

// look reads the state of the locks, takes or releases that of the controllers, and brings the cache up to date if
// needed.
func (s *Session) look(ctx context.Context, a connection) error {
	s.mu.Lock()
	s.summoned, s.lookedAt = false, s.store.clock.Now()
	wanted, leads := s.wanted, s.leads
	s.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, s.limits().read)
	defer cancel()
	if leads && !wanted {
		if _, err := a.conn.Exec(bounded, leaveSQL, s.class, s.store.peers.db.channel); err != nil {
			return err
		}
		leads = false
	}
	var found look
	if err := found.ask(bounded, a.conn, s, wanted && !leads); err != nil {
		return err
	}
	if !slices.Contains(found.alive, s.id) {
		return errors.New("the connection has lost its locks")
	}
	s.mu.Lock()
	s.set(leads || found.taken, found.alive)
	s.mu.Unlock()
	if found.legacy {
		s.store.queue.putTask(s.store.peers.db.modernize)
	} else if found.registered > len(found.alive) {
		if _, err := a.conn.Exec(bounded, removeDeadServersSQL, s.class, s.id); err != nil {
			return err
		}
	}
	if !found.same || found.revision != s.store.revisions.current.Load() || found.floor > s.store.floor.Load() {
		return s.store.peers.catchUp(ctx, a, 0)
	}
	return nil
}

// look is the answer to lookSQL.
type look struct {
	revision int64
	floor    int64
	same     bool // the counter was last raised in this database
	legacy   bool // servers of schema version 1 may be running
	alive    []int32
	taken    bool

	registered int // rows of servers: of live ones, and of those that ended without deleting theirs
}

// rowQuerier is a connection or a pool.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (l *look) ask(ctx context.Context, from rowQuerier, s *Session, take bool) error {
	err := from.QueryRow(ctx, lookSQL, s.class, take, s.id).Scan(&l.revision, &l.floor, &l.same, &l.legacy, &l.registered, &l.alive, &l.taken)
	if err != nil {
		return err
	}
	slices.Sort(l.alive)
	return nil
}
