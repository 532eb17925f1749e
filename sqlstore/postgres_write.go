package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rowlock/rowlock/resources"
)

const (
	// writeTimeout is how long a step of a transaction may take before the connection is given up.
	writeTimeout = 15 * time.Second
	// limitsSQL bounds, within a transaction: waiting for the counter, and holding it while the server is gone or
	// stopped, which would stop all others. An acknowledged write is durable, so synchronous_commit is not off.
	limitsSQL = `SELECT set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '5s', true),
set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'local' ELSE current_setting('synchronous_commit') END, true)`
	// lockSQL locks the counter. The number of the transaction tells later what became of it.
	lockSQL = `SELECT pg_current_xact_id()::text FROM meta FOR UPDATE`
	// READ COMMITTED: the statement after the lock sees what was committed while it waited.
	beginSQL = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`
	// pageUnderLock is how far a batch may be behind to be brought up while it holds the lock.
	pageUnderLock = 2048

	unnestChangesSQL = `INSERT INTO changes (revision, at, size, op, resource, namespace, name, prev_revision,
fields, prev_fields, data, prev_data)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
$9::text[], $10::text[], $11::text[], $12::text[])`

	unnestObjectsSQL = `INSERT INTO objects (resource, namespace, name, revision, expires, fields, data)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
ON CONFLICT (resource, namespace, name) DO UPDATE
SET revision = excluded.revision, expires = excluded.expires, fields = excluded.fields, data = excluded.data`

	unnestDeletesSQL = `DELETE FROM objects AS o USING unnest($1::text[], $2::text[], $3::text[]) AS d (resource, namespace, name)
WHERE o.resource = d.resource AND o.namespace = d.namespace AND o.name = d.name`

	pruneSQL = `WITH gone AS (DELETE FROM changes WHERE revision <= $1 RETURNING size),
freed AS (SELECT coalesce(sum(size), 0)::bigint AS bytes FROM gone)
UPDATE meta SET floor = greatest(floor, $1), history_bytes = greatest(history_bytes - freed.bytes, 0) FROM freed RETURNING freed.bytes`

	settleSQL = `UPDATE meta SET revision = greatest(revision, $1) + $2, floor = greatest(revision, $1) + $2, history_bytes = 0, origin = $3`
)

// postgresTransaction is a batch that holds the lock of the counter.
type postgresTransaction struct {
	driver *postgresDriver
	conn   *pgxpool.Conn
	xid    string
	origin string // of the database that has it
}

// begin locks the counter and reads what was written after a revision, in one round trip. A connection that turns out
// to be dead, as all are after a restart of the database, is replaced once.
func (p *postgresDriver) begin(after int64) (transaction, *page, error) {
	tx, page, err := p.tryBegin(after, pageUnderLock)
	if err != nil && isConnectionError(err) {
		tx, page, err = p.tryBegin(after, pageUnderLock)
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

func (p *postgresDriver) tryBegin(after int64, limit int) (_ *postgresTransaction, _ *page, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	conn, err := p.writes.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	tx := &postgresTransaction{driver: p, conn: conn}
	defer func() {
		if err != nil {
			conn.Release() // which closes it when the transaction is not over
		}
	}()
	var read *page
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(limitsSQL)
	b.Queue(lockSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&tx.xid) })
	b.Queue(selectPageSQL, after, limitOrNull(limit)).Query(func(rows pgx.Rows) (err error) {
		read, err = scanPage(rows)
		return err
	})
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, err
	}
	tx.origin = read.actual
	return tx, read, nil
}

// rollback ends the transaction. A connection that cannot do that is closed, to the same effect.
func (t *postgresTransaction) rollback() {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if t.conn.Conn().PgConn().TxStatus() != 'I' && !t.conn.Conn().IsClosed() {
		_, _ = t.conn.Exec(ctx, "ROLLBACK")
	}
	t.conn.Release()
}

// commit writes the batch in one round trip.
func (t *postgresTransaction) commit(b *batch) error {
	s := &pgx.Batch{}
	if err := queueRows(s, b); err != nil {
		t.rollback()
		return unavailable(err)
	}
	s.Queue(updateMetaSQL, b.revision, b.size, b.revision-int64(len(b.changes)))
	s.Queue("SELECT pg_notify($1, $2)", t.driver.channel, strconv.FormatInt(b.revision, 10))
	return t.finish(s, b)
}

// finish runs the statements and COMMIT in one round trip, and finds out what became of them if their answer is lost. b
// is what they write into the log, or nil.
func (t *postgresTransaction) finish(s *pgx.Batch, b *batch) error {
	committed := false
	s.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT" // of a transaction that has failed it says ROLLBACK
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := t.conn.SendBatch(ctx, s).Close()
	t.rollback() // which has nothing to do after COMMIT but to give the connection back
	var pgErr *pgconn.PgError
	switch {
	case committed:
		return nil
	case err == nil:
		return fmt.Errorf("%w: the transaction was rolled back", resources.ErrUnavailable)
	case errors.As(err, &pgErr) && pgErr.SeverityUnlocalized == "ERROR", pgconn.SafeToRetry(err):
		return hung(context.Background(), err) // the database says that it did not happen, or never heard of it
	}
	return t.lookUp(b, err)
}

// settle makes the counter jump ahead if the database is not a continuation of what was seen at a position, and reports
// whether it did.
func (p *postgresDriver) settle(seen position) (jumped bool, err error) {
	tx, page, err := p.tryBegin(seen.revision, 1)
	if err != nil {
		return false, hung(context.Background(), err)
	}
	s := &pgx.Batch{}
	switch {
	case page.origin == "": // nobody was here before
		s.Queue("UPDATE meta SET origin = $1", page.actual)
	case page.astray(seen):
		jumped = true
		s.Queue(settleSQL, seen.revision, int64(jump), page.actual)
	default:
		tx.rollback()
		return false, nil
	}
	s.Queue("SELECT pg_notify($1, '')", p.channel)
	return jumped, tx.finish(s, nil) // if it is wrong that this happened, the next batch finds the database astray again
}

// prune deletes changes. Another server may have deleted some of them.
func (p *postgresDriver) prune(floor, _ int64) (freed int64, err error) {
	err = p.run(pruneSQL, floor).scan(&freed)
	return freed, err
}

func (p *postgresDriver) touch() error {
	return p.run("UPDATE meta SET floor = floor").scan()
}

// statement is one that is a transaction of its own, whose limits are those of a batch.
type statement struct {
	driver *postgresDriver
	text   string
	args   []any
}

func (p *postgresDriver) run(text string, args ...any) statement { return statement{p, text, args} }

func (st statement) scan(into ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	conn, err := st.driver.writes.Acquire(ctx)
	if err != nil {
		return hung(context.Background(), err)
	}
	defer conn.Release()
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(limitsSQL)
	q := b.Queue(st.text, st.args...)
	if len(into) > 0 {
		q.QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	}
	b.Queue("COMMIT")
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return hung(context.Background(), err)
	}
	return nil
}
