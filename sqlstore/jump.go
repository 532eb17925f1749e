package sqlstore

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// revisionsPerMillisecond is more than can be given in one, by far.
	revisionsPerMillisecond = 1 << 10
	// blindJump is how far the counter goes ahead, at least, where the clocks do not help: more than are given in years.
	blindJump = 1 << 32
	// RevisionMax is the highest revision that something may have of which a store is made: what clients in JavaScript can compare is above it
	// by more than a hundred jumps.
	RevisionMax = 1<<53 - 1<<40
)

// jumpTo returns where the counter goes on when it cannot be known which revisions beyond one were given, and lost: at the time
// that it is. Whoever remembers one remembers less, for a counter that began below the clock stays below it; a jump from
// the same revision, when the same backup is restored again, leads elsewhere; and what comes of it is less than
// 2^53, which is what clients in JavaScript can compare.
//
// It would stop holding where the clocks of two servers and their databases differ by more than the time between two
// jumps. Where they are behind the counter, a part of the jump is chance.
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

// now is what the database's clock shows.
func (t *postgresTransaction) now() (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.driver.limits.step)
	defer cancel()
	var ms int64
	err := t.conn.QueryRow(ctx, nowSQL).Scan(&ms)
	return milliseconds(ms), err
}
