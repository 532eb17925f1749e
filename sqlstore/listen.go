package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// listener wakes up when another server has written. A notification is only a hint; the log has the change.
type listener struct {
	peers *peers
	ctx   context.Context
	done  chan struct{}
}

// run listens, over one connection after the other, until the context ends.
func (l *listener) run() {
	defer close(l.done)
	if l.peers.db.pooled {
		l.poll()
		return
	}
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
		l.peers.store.logger.Warn("the connection that listens for changes broke, trying again", "error", err)
		if !heard {
			l.lookElsewhere()
		}
	}
}

// lookElsewhere reads the log through the pool when no connection to listen through can be made: if the database has no
// free connection, the pool's may last for long, and a server that is ready and answers reads at "most recent" would
// let watches stand still. If the database does not answer, other readers of the log wait for this only for limits.ping.
func (l *listener) lookElsewhere() {
	ctx, cancel := context.WithTimeout(l.ctx, l.peers.db.limits.ping)
	defer cancel()
	if err := l.peers.catchUp(ctx, l.peers.db, 0); err != nil && l.ctx.Err() == nil {
		l.peers.store.logger.Debug("nor could the log of changes be read", "error", err)
	}
}

// unlessSilent calls look, which asks through the connection that listens. While that takes longer than limits.ping, it reads the log through another
// one: what other servers have revoked must not count until limits.read, after which a connection that was lost silently is given up.
func (l *listener) unlessSilent(look func() error) error {
	ctx, cancel := context.WithCancel(l.ctx)
	var aside sync.WaitGroup
	aside.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(l.peers.db.limits.ping):
				l.lookAfresh(ctx)
			case <-ctx.Done():
			}
		}
	})
	defer aside.Wait()
	defer cancel()
	return look()
}

// lookAfresh reads the log through a connection of its own: those of the pool may be lost, too, and each costs limits.ping.
func (l *listener) lookAfresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.peers.db.limits.ping)
	defer cancel()
	conn, err := l.peers.connect(ctx)
	if err != nil {
		return // the next attempt, or that of listen, may succeed
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := l.peers.catchUp(ctx, connection{conn, l.peers.db}, 0); err != nil && ctx.Err() == nil {
		l.peers.store.logger.Debug("the log of changes could not be read while the connection that listens is silent", "error", err)
	}
}

// pollAgain is how soon poll tries again after a failure; otherwise changes would stay unnoticed for two intervals.
const pollAgain = time.Second

// poll reads the log at intervals, for connections that get no notifications.
func (l *listener) poll() {
	usual := l.peers.db.limits.deaf()
	for pause := usual; l.sleep(pause); {
		err := l.peers.catchUp(l.ctx, l.peers.db, 0)
		if err == nil || l.ctx.Err() != nil {
			pause = usual
			continue
		}
		if pause == usual { // logged once
			l.peers.store.logger.Warn("the log of changes could not be read, trying again", "error", err)
		}
		pause = min(usual/2, pollAgain)
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

// listen listens until the connection breaks. heard reports whether it had caught up and listened before that.
func (l *listener) listen() (heard bool, err error) {
	conn, err := l.peers.connect(l.ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if l.ctx.Err() != nil {
			l.peers.session.exit(ctx, conn)
		}
		_ = conn.Close(ctx)
	}()
	a := connection{conn, l.peers.db}
	if err := a.exec(l.ctx, "LISTEN "+pgx.Identifier{l.peers.db.channel}.Sanitize()); err != nil {
		return false, err
	}
	session := l.peers.session
	defer session.leave()
	if err := session.enter(l.ctx, conn); err != nil {
		return false, err
	}
	// Notifications before LISTEN took effect were missed.
	if err := l.peers.catchUp(l.ctx, a, 0); err != nil {
		return false, err
	}
	session.summon()
	for {
		if err := l.next(a); err != nil {
			return true, err
		}
	}
}

// next waits for a notification or until it is time to look, and brings the cache up to date.
func (l *listener) next(a connection) error {
	revision, err := l.wait(a.conn)
	if err != nil {
		return err
	}
	if revision == 0 {
		return l.unlessSilent(func() error { return l.peers.session.look(l.ctx, a) })
	}
	l.peers.session.busy()
	return l.peers.catchUp(l.ctx, a, revision)
}

// wait returns the revision of a notification, or 0 when it is time to look.
func (l *listener) wait(conn *pgx.Conn) (int64, error) {
	limits := &l.peers.db.limits
	patience := limits.poll
	if l.peers.session.knowsOthers() {
		patience = limits.deaf()
	}
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	if l.peers.session.waiting(cancel) {
		return 0, nil
	}
	defer l.peers.session.waiting(nil)
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		if ctx.Err() != nil && l.ctx.Err() == nil && !conn.IsClosed() {
			return 0, nil
		}
		return 0, fmt.Errorf("wait for a notification: %w", err)
	}
	revision, err := strconv.ParseInt(n.Payload, 10, 64)
	if err != nil {
		return 0, nil //nolint:nilerr // any client can send notifications
	}
	return revision, nil
}

// connection reads the log through the listener's connection, which shows at the same time that the connection lives.
type connection struct {
	conn *pgx.Conn
	db   *postgresDriver
}

func (c connection) page(ctx context.Context, after int64, rows, bytes int) (*page, error) {
	return c.db.readPage(ctx, c.conn, after, rows, bytes)
}

func (c connection) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, c.db.limits.read)
	defer cancel()
	_, err := c.conn.Exec(ctx, statement)
	return err
}
