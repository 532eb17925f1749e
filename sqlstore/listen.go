package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// pollEvery is how often the log is looked at without having heard of anything: a notification may have been lost with
// a connection that nobody knows to be dead.
const pollEvery = 30 * time.Second

// listener wakes up when another server has written. What it hears is a hint; what was written is in the log.
type listener struct {
	peers *peers
	ctx   context.Context
	done  chan struct{}
}

// run listens, over one connection after the other, until the context ends.
func (l *listener) run() {
	defer close(l.done)
	for pause := time.Duration(0); ; pause = min(max(2*pause, 50*time.Millisecond), 5*time.Second) {
		if !l.sleep(pause) {
			return
		}
		heard, err := l.listen()
		if l.ctx.Err() != nil {
			return
		}
		if heard {
			pause = 0
		}
		l.peers.store.logger.Warn("the connection that listens for changes broke, trying again", "err", err)
	}
}

func (l *listener) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// listen listens until the connection breaks. heard says whether it was any good.
func (l *listener) listen() (heard bool, err error) {
	conn, err := pgx.ConnectConfig(l.ctx, l.peers.db.config)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	a := connection{conn}
	if err := a.exec(l.ctx, "LISTEN "+pgx.Identifier{l.peers.db.channel}.Sanitize()); err != nil {
		return false, err
	}
	// What was written before LISTEN took effect was not heard.
	if err := l.peers.catchUp(l.ctx, a, 0); err != nil {
		return false, err
	}
	for {
		revision, err := l.wait(conn)
		if err != nil {
			return true, err
		}
		if err := l.peers.catchUp(l.ctx, a, revision); err != nil {
			return true, err
		}
	}
}

// wait returns the revision that was heard of, or 0 when it is time to look.
func (l *listener) wait(conn *pgx.Conn) (int64, error) {
	ctx, cancel := context.WithTimeout(l.ctx, pollEvery)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && l.ctx.Err() == nil && !conn.IsClosed() {
			return 0, nil
		}
		return 0, fmt.Errorf("wait for a notification: %w", err)
	}
	revision, err := strconv.ParseInt(n.Payload, 10, 64)
	if err != nil {
		return 0, nil //nolint:nilerr // anybody may send anything
	}
	return revision, nil
}

// connection is one to read the log through, which shows at the same time that the connection lives.
type connection struct{ conn *pgx.Conn }

func (c connection) page(ctx context.Context, after int64, limit int) (*page, error) {
	return readPage(ctx, c.conn, after, limit)
}

func (c connection) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := c.conn.Exec(ctx, statement)
	return err
}
