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

// closeTimeout is how long a connection that is given up may take to close.
const closeTimeout = 2 * time.Second

// briefly makes connections that do not wait long for the end of one that leads nowhere, which pgx does for 15 seconds: a
// place in the pool, and the end of the server, would wait for it.
func briefly(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return brief{conn}, nil
	}
}

type brief struct{ net.Conn }

// SetDeadline is only called when a connection is given up: at once, or when it has said its last.
func (c brief) SetDeadline(t time.Time) error {
	if most := time.Now().Add(closeTimeout); t.After(most) {
		t = most
	}
	return c.Conn.SetDeadline(t)
}

// cancelNothing makes a connection that is given up not ask the database to cancel what runs on it, which pgx does over a
// second connection. What may run is a COMMIT that waits for a synchronous standby: to cancel it makes it visible
// without being where it has to be, and what is visible must not be lost. Left alone, it waits on, or fails. All else
// ends when the database sees that the client is gone, and a second connection may lead nowhere like the first.
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

// warned is where a connection keeps the last warning of the database.
const warned = "warned"

func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warned] = n.Message
	}
}

// takeWarning returns the warning that came since it was asked for last, or "".
func takeWarning(c *pgconn.PgConn) string {
	w, _ := c.CustomData()[warned].(string)
	delete(c.CustomData(), warned)
	return w
}

// isLockTimeout reports whether the counter could not be had in time.
func isLockTimeout(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == lockNotAvailable
}

// evictSQL ends who has the counter and has not finished sending a statement for so long. The database itself ends who is
// idle in a transaction, but to it a client that was stopped in the middle of a statement is not idle.
const evictSQL = `SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.relation = 'meta'::regclass AND l.mode = 'RowShareLock' AND l.granted AND a.usename = current_user
AND a.wait_event = 'ClientRead' AND a.state_change < clock_timestamp() - make_interval(secs => $1)`

// evict ends the transaction of a server that hangs while it holds the lock of the counter.
func (p *postgresDriver) evict() {
	ctx, cancel := context.WithTimeout(context.Background(), p.limits.read)
	defer cancel()
	var ended int
	err := p.query(ctx, p.pool, evictSQL, p.limits.idle.Seconds()).scan(&ended)
	if err != nil || ended > 0 {
		p.logger.Warn("another server held the lock of the counter and did not go on", "connectionsEnded", ended, "err", err)
	}
}
