package sqlstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// closeTimeout is how long it may take to close a connection that is given up.
const closeTimeout = 2 * time.Second

// briefly limits how long the end of a connection that leads nowhere takes, for which pgx waits 15 seconds: a place in
// the pool, and the end of the server, would wait for it.
func briefly(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return brief{conn}, nil
	}
}

// probed lets the kernel find out within seconds that a connection which only waits leads nowhere any more.
func probed(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if b, ok := conn.(brief); ok {
			if tcp, ok := b.Conn.(*net.TCPConn); ok {
				err = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: time.Second, Count: 3})
			}
		}
		return conn, err
	}
}

type brief struct{ net.Conn }

// SetDeadline is called only when a connection is given up, or when its last message was sent.
func (c brief) SetDeadline(t time.Time) error {
	if most := time.Now().Add(closeTimeout); t.After(most) {
		t = most
	}
	return c.Conn.SetDeadline(t)
}

// cancelNothing stops pgx from sending a cancel request, over a second connection, for a connection that is given up.
// The running statement may be a COMMIT that waits for a synchronous standby: a canceled COMMIT becomes visible
// without being on the standby, and visible changes must not be lost. Left alone, it waits on, or fails. All other
// statements end when the database sees that the client is gone, and a second connection may lead nowhere as well.
func cancelNothing(_ context.Context, c *pgx.ConnConfig) error {
	var connected atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("no statement is canceled")
		}
		return dial(ctx, network, addr)
	}
	c.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		connected.Store(true)
		return nil
	}
	return nil
}

// warned is the key under which a connection keeps the last warning of the database.
const warned = "warned"

func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warned] = n.Message
	}
}

// takeWarning returns the last warning since the previous call, or "".
func takeWarning(c *pgconn.PgConn) string {
	w, _ := c.CustomData()[warned].(string)
	delete(c.CustomData(), warned)
	return w
}

// isLockTimeout reports whether the lock of the counter could not be taken in time.
func isLockTimeout(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == lockNotAvailable
}

// waitedInVain is isLockTimeout for a statement that takes long only if it waits for the counter: the role may have a
// shorter limit for statements or transactions.
func waitedInVain(err error) bool {
	var pgErr *pgconn.PgError
	return isLockTimeout(err) || errors.As(err, &pgErr) && (pgErr.Code == queryCanceled || pgErr.Code == transactionTimeout)
}

// asItselfSQL runs the rest of a transaction as the role that connected, if that role acts as another one (ALTER ROLE …
// SET role) that owns the tables. The connections of a server belong to the role that connected; another role can
// neither see what they do nor end them.
const asItselfSQL = `SELECT set_config('role', 'none', true)`

// evictSQL ends the connection that holds the lock of the counter and has been in the middle of sending a statement for
// so long. The database itself ends connections that are idle in a transaction, but a client that was stopped in the
// middle of a statement does not count as idle.
const evictSQL = `SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.relation = (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $2 AND c.relname = 'meta') AND l.mode = 'RowShareLock' AND l.granted
AND (pg_has_role(a.usesysid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))
AND a.wait_event = 'ClientRead' AND a.state_change < clock_timestamp() - make_interval(secs => $1)`

// evict ends the transaction of a server that hangs while it holds the lock of the counter.
func (p *postgresDriver) evict() {
	ctx, cancel := context.WithTimeout(context.Background(), p.limits.read)
	defer cancel()
	var ended int
	b := &pgx.Batch{}
	b.Queue(asItselfSQL)
	q := query{ctx, p.pool, b, b.Queue(evictSQL, p.limits.idle.Seconds(), p.schema)}
	err := q.scan(&ended)
	switch {
	case err != nil:
		p.logger.Warn("could not look for a server that holds the lock of the counter and does not go on", "error", err)
	case ended > 0:
		p.logger.Warn("another server held the lock of the counter and did not go on", "connectionsEnded", ended)
	}
}
