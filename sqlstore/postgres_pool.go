package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connPool closes all connections of a pool but one when none was used for a while: if many control planes share a
// cluster, connections are its scarcest resource. The pool's own MaxConnIdleTime closes the last one.
type connPool struct {
	after   time.Duration
	current func(context.Context, *pgx.Conn) (bool, error) // whether a connection is still usable

	pool  *pgxpool.Pool
	timer *time.Timer

	mu     sync.Mutex
	closed bool
}

// openPool opens a pool whose unused connections are closed.
func openPool(ctx context.Context, config *pgxpool.Config, l limits) (*connPool, error) {
	s := &connPool{after: l.shrink, current: config.PrepareConn}
	config.MinConns, config.MinIdleConns, config.PingTimeout = 0, 0, l.ping
	config.MaxConnIdleTime, config.HealthCheckPeriod = l.rest, l.rest/4
	config.PrepareConn = s.used
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s.pool = pool
	s.timer = time.AfterFunc(s.after, s.trim)
	return s, nil
}

// used is called when a connection is taken from the pool.
func (s *connPool) used(ctx context.Context, conn *pgx.Conn) (bool, error) {
	if s.pool.Stat().TotalConns() > 1 {
		s.timer.Reset(s.after)
	}
	return s.current(ctx, conn)
}

// trim closes all idle connections but one.
func (s *connPool) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.pool.Stat().TotalConns() <= 1 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for i, c := range s.pool.AcquireAllIdle(ctx) {
		if i == 0 {
			c.Release()
			continue
		}
		_ = c.Hijack().Close(ctx) // nothing runs on it
	}
}

// close ends the pool.
func (s *connPool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
	s.pool.Close()
	s.closed = true
}
