package sqlstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// cancelNothing makes a connection that is given up not ask the database to cancel what runs on it, which pgx does over a
// second connection. What may run is a COMMIT that waits for a synchronous standby: to cancel it makes it visible
// without being where it has to be, and what is visible must not be lost. Left alone, it waits on, or fails; all else
// ends when the database sees that nobody listens.
func cancelNothing(_ context.Context, c *pgx.ConnConfig) error {
	var connected atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("a statement that writes is not canceled")
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
