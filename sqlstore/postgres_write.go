package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rowlock/rowlock/resources"
)

const (
	// lockSQL locks the counter. The transaction's number is used later to look up its outcome.
	lockSQL = `SELECT pg_current_xact_id()::text FROM meta FOR UPDATE`
	// READ COMMITTED: the statement after the lock sees the transactions that committed while it waited.
	beginSQL = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`

	unnestChangesSQL = `INSERT INTO changes (revision, at, size, op, resource, namespace, name, prev_revision,
fields, prev_fields, data, prev_data, total, author)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
$9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::text[])`

	unnestObjectsSQL = `INSERT INTO objects (resource, namespace, name, revision, expires, fields, data)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
ON CONFLICT (resource, namespace, name) DO UPDATE
SET revision = excluded.revision, expires = excluded.expires, fields = excluded.fields, data = excluded.data`

	unnestDeletesSQL = `DELETE FROM objects AS o USING unnest($1::text[], $2::text[], $3::text[]) AS d (resource, namespace, name)
WHERE o.resource = d.resource AND o.namespace = d.namespace AND o.name = d.name`

	touchSQL = `UPDATE meta SET floor = floor`

	// touchLogSQL is rolled back. The text is random, so that compression does not make it smaller.
	touchLogSQL = `WITH text AS (SELECT string_agg(md5(random()::text), '') AS random FROM generate_series(1, 1024))
INSERT INTO changes (revision, at, size, op, resource, namespace, name, data)
SELECT -1, 0, 0, 'create', '', '', '', random FROM text`

	// raiseSQL raises the counter for servers of schema version 1. It fails if the counter is not the revision at
	// which the batch begins, which is impossible while its lock is held. The check is in the statement because a batch
	// is one round trip: the number of changed rows could not be checked before COMMIT. The name of the parameter
	// appears in the database's error.
	raiseSQL = `UPDATE meta SET history_bytes = history_bytes + $2, revision = CASE WHEN revision = $3 THEN $1::bigint
ELSE current_setting('rowlock.the_counter_was_changed_by_somebody_else')::bigint END`

	// settleSQL empties the log: changes below the floor would not be counted, and would stay.
	settleSQL = `WITH gone AS (DELETE FROM changes)
UPDATE meta SET revision = CASE WHEN revision IS NULL THEN NULL ELSE $1::bigint END, floor = $1, history_bytes = 0, origin = $2`
)

// postgresTransaction is a batch that holds the lock of the counter.
type postgresTransaction struct {
	driver *postgresDriver
	conn   *pgxpool.Conn
	xid    string
	origin string // of the database that it runs in
	at     int64  // the counter
	from   int64  // the floor
	total  int64  // bytes written to the log since the database was created
	legacy bool   // the counter is to be raised in meta, too
	heard  bool   // another server listens
}

// begin locks the counter and reads the changes after a revision, in one round trip. It retries once when the
// connection turns out to be dead, as all are after a restart of the database.
func (p *postgresDriver) begin(after int64) (transaction, *page, error) {
	tx, page, err := p.tryBegin(after, pageRows)
	if err != nil && isConnectionError(err) {
		tx, page, err = p.tryBegin(after, pageRows)
	}
	if err != nil {
		return nil, nil, hung(context.Background(), err)
	}
	return tx, page, nil
}

// isConnectionError reports whether the connection failed, not the statement.
func isConnectionError(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.SeverityUnlocalized == "FATAL" || pgErr.SeverityUnlocalized == "PANIC"
	}
	return !errors.Is(err, context.DeadlineExceeded)
}

// queueBegin queues the statements that begin a transaction.
func (p *postgresDriver) queueBegin(b *pgx.Batch) {
	b.Queue(beginSQL)
	if p.prelude != "" {
		b.Queue(p.prelude)
	}
	b.Queue(p.limits.statement())
}

func (p *postgresDriver) tryBegin(after int64, limit int) (_ *postgresTransaction, _ *page, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.limits.step)
	defer cancel()
	conn, err := p.writes.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	tx := &postgresTransaction{driver: p, conn: conn}
	defer func() {
		if err != nil {
			conn.Release() // Release closes it if the transaction is not over
		}
	}()
	var read *page
	b := &pgx.Batch{}
	p.queueBegin(b)
	b.Queue(lockSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&tx.xid) })
	b.Queue(selectPageSQL, after, limit, pageBytes, p.self).Query(func(rows pgx.Rows) (err error) {
		read, err = p.scanPage(rows)
		return err
	})
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		if waitedInVain(err) {
			p.evict()
		}
		return nil, nil, err
	}
	tx.at, tx.from, tx.origin, tx.total = read.revision, read.floor, read.actual, read.historyBytes+read.freed
	tx.legacy, tx.heard = read.legacy, read.heard
	return tx, read, nil
}

// rollback ends the transaction. A connection that cannot do that is closed, to the same effect.
func (t *postgresTransaction) rollback() {
	ctx, cancel := context.WithTimeout(context.Background(), t.driver.limits.step)
	defer cancel()
	if t.conn.Conn().PgConn().TxStatus() != 'I' && !t.conn.Conn().IsClosed() {
		_, _ = t.conn.Exec(ctx, "ROLLBACK")
	}
	t.conn.Release()
}

// floor is where history begins. With servers of schema version 1 it is MaxInt64: for the object before an update
// they read only the change itself, and keep no other change for it.
func (t *postgresTransaction) floor() int64 {
	if t.legacy {
		return math.MaxInt64
	}
	return t.from
}

// commit writes the batch in one round trip.
func (t *postgresTransaction) commit(b *batch) error {
	before := b.revision - int64(len(b.changes))
	if before != t.at {
		t.rollback()
		return unavailable(fmt.Errorf("the batch begins at revision %d, the counter is at %d", before, t.at))
	}
	s := &pgx.Batch{}
	queueRows(s, b, t.total)
	if t.legacy {
		s.Queue(raiseSQL, b.revision, b.size, before)
	}
	if c := b.cut; c != nil { // last, so that it knows which objects the batch changes
		s.Queue(t.cutSQL(), c.rows, before, c.bytes).QueryRow(func(row pgx.Row) error { return row.Scan(&c.floor, &c.left) })
	}
	// Transactions that notify commit one after the other in the whole cluster. A server that begins to listen writes
	// its row before it waits for this transaction's lock, and reads the log after that (Session.enter): so a listener
	// that this transaction does not see will read its changes there.
	if t.legacy || t.heard {
		t.queueNotify(s, b.revision)
	}
	return t.driver.noteFull(t.finish(s, b))
}

// noteFull notes that a commit failed because the queue of notifications is full: the next one goes without one.
func (p *postgresDriver) noteFull(err error) error {
	if !isQueueFull(err) {
		return err
	}
	p.crowded = true
	return fmt.Errorf("%w: %w", errAgain, err)
}

// queueNotify queues the notification. While PostgreSQL's queue of notifications is full, which all databases of the cluster share, the commit
// of a transaction with a notification fails: then the batch goes without one, and other servers find it when they look. The queue is full
// while a session listens in an open transaction, and after that until some session looks at it: a full queue is not made shorter otherwise.
func (t *postgresTransaction) queueNotify(s *pgx.Batch, revision int64) {
	if !t.driver.crowded {
		s.Queue("SELECT pg_notify($1, $2)", t.driver.channel, strconv.FormatInt(revision, 10))
		return
	}
	s.Queue("SELECT pg_notify($1, $2) WHERE "+roomSQL, t.driver.channel, strconv.FormatInt(revision, 10)).
		Exec(func(tag pgconn.CommandTag) error {
			t.driver.crowded = tag.RowsAffected() == 0
			return nil
		})
}

// roomSQL tells whether the queue of notifications has room, and makes it as short as it can be.
const roomSQL = "pg_notification_queue_usage() < 0.9"

// isQueueFull reports whether a commit failed because the queue of notifications is full.
func isQueueFull(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Routine == "PreCommit_Notify"
}

// finish runs the statements and COMMIT in one round trip, and looks up their outcome if the answer is lost. b is what
// they write into the log, or nil.
func (t *postgresTransaction) finish(s *pgx.Batch, b *batch) error {
	committed, err := t.send(s)
	var pgErr *pgconn.PgError
	switch {
	case committed:
		return nil
	case err == nil:
		return fmt.Errorf("%w: the transaction was rolled back", resources.ErrUnavailable)
	case isRefusal(err):
		return fmt.Errorf("%w: %w", resources.ErrRefused, err)
	case errors.As(err, &pgErr) && pgErr.SeverityUnlocalized == "ERROR", pgconn.SafeToRetry(err):
		return hung(context.Background(), err) // the database says that it did not commit, or never received it
	}
	return t.lookUp(b, err)
}

// isRefusal reports whether a statement failed because of the data that it was to write. Classes of
// https://www.postgresql.org/docs/current/errcodes-appendix.html: data exceptions, violated constraints, limits of the
// program (a row of an index that is too long). A revision that exists already is not the fault of the data, nor is a full
// queue of notifications.
func isRefusal(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.SeverityUnlocalized != "ERROR" || pgErr.Code == uniqueViolation || isQueueFull(err) {
		return false
	}
	switch pgErr.Code[:2] {
	case "22", "23", "54":
		return true
	}
	return false
}

// send runs statements and COMMIT, and reports whether the database confirmed it.
func (t *postgresTransaction) send(s *pgx.Batch) (committed bool, err error) {
	s.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT" // after a failed statement the tag is ROLLBACK
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), t.driver.limits.step)
	defer cancel()
	conn := t.conn.Conn().PgConn()
	takeWarning(conn) // of an earlier statement
	err = t.conn.SendBatch(ctx, s).Close()
	if warning := takeWarning(conn); committed && warning != "" {
		// For example: it stopped waiting for a synchronous standby, because an administrator canceled the statement.
		committed, err = false, fmt.Errorf("COMMIT with a warning: %s", warning)
	}
	t.rollback() // after COMMIT this only releases the connection
	return committed, err
}

// settle makes the counter jump ahead if the database does not continue what was seen at a position, and reports
// whether it did.
func (p *postgresDriver) settle(seen position) (jumped bool, err error) {
	tx, page, err := p.tryBegin(seen.revision, 1)
	if err != nil {
		return false, hung(context.Background(), err)
	}
	s := &pgx.Batch{}
	switch {
	case page.origin == "": // the first server of these tables
		s.Queue("UPDATE meta SET origin = $1, revision = NULL", page.actual)
	case page.astray(seen):
		now, err := tx.now()
		if err != nil {
			tx.rollback()
			return false, hung(context.Background(), err)
		}
		jumped = true
		s.Queue(settleSQL, jumpTo(max(page.revision, seen.revision), now, p.clock.Now()), page.actual)
	default:
		tx.rollback()
		return false, nil
	}
	s.Queue("SELECT pg_notify($1, '') WHERE "+roomSQL, p.channel)
	return jumped, tx.finish(s, nil) // if the jump was not committed after all, the next batch finds the database astray again
}

// touch also writes a row into the log, and rolls it back: on a full disk a commit without changes succeeds where a
// batch fails. And it begins like a batch, which detects a primary that was replaced.
func (p *postgresDriver) touch() error {
	if err := p.try(touchLogSQL).scan(); err != nil {
		return err
	}
	tx, _, err := p.tryBegin(math.MaxInt64, 1)
	if err == nil {
		_, err = tx.confirm()
	}
	if err != nil {
		return hung(context.Background(), err)
	}
	return nil
}

func (p *postgresDriver) noteAges(ages string) error { return p.run(noteAgesSQL, ages).scan() }

// statement is a statement that is a transaction of its own, with the limits of a batch.
type statement struct {
	driver *postgresDriver
	end    string
	text   string
	args   []any
}

func (p *postgresDriver) run(text string, args ...any) statement {
	return statement{p, "COMMIT", text, args}
}

func (p *postgresDriver) try(text string) statement { return statement{p, "ROLLBACK", text, nil} }

func (st statement) scan(into ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), st.driver.limits.step)
	defer cancel()
	conn, err := st.driver.writes.Acquire(ctx)
	if err != nil {
		return hung(context.Background(), err)
	}
	defer conn.Release()
	b := &pgx.Batch{}
	st.driver.queueBegin(b)
	q := b.Queue(st.text, st.args...)
	if len(into) > 0 {
		q.QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	}
	b.Queue(st.end)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return hung(context.Background(), err)
	}
	return nil
}
