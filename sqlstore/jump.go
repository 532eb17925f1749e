package sqlstore

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// revisionsPerMillisecond is far more revisions than can be assigned in a millisecond.
	revisionsPerMillisecond = 1 << 10
	// blindJump is how far the counter jumps at least if the clocks do not help: more revisions than are assigned in
	// years.
	blindJump = 1 << 32
	// RevisionMax is the highest revision that a store may be created with: the limit of clients in JavaScript is more
	// than a hundred jumps above it.
	RevisionMax = 1<<53 - 1<<40
)

// jumpTo returns where the counter goes on if unknown revisions after beyond were assigned and lost: at the current
// time in milliseconds times revisionsPerMillisecond. Every revision that a client remembers is lower, because a
// counter that began below the clock stays below it; a second jump from the same revision, after the same backup was
// restored again, leads elsewhere; and the result is less than 2^53, which is the limit of clients in JavaScript.
//
// This fails if the clocks of two servers and their databases differ by more than the time between two jumps. If the
// clocks are behind the counter, a part of the jump is random.
func jumpTo(beyond int64, clocks ...time.Time) int64 {
	to := beyond
	for _, now := range clocks {
		to = max(to, now.UnixMilli()*revisionsPerMillisecond)
	}
	if to > beyond {
		return to
	}
	return beyond + blindJump + rand.Int64N(blindJump)
}

const nowSQL = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"

// now returns the time of the database's clock.
func (t *postgresTransaction) now() (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.driver.limits.step)
	defer cancel()
	var ms int64
	err := t.conn.QueryRow(ctx, nowSQL).Scan(&ms)
	return milliseconds(ms), err
}
