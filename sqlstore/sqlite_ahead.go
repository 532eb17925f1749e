package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
)

// ahead prevents that a power cut makes the store assign a revision twice, if commits are not flushed one by one. A
// mark is flushed before any revision up to it is assigned, and removed when the store is closed, after everything has
// been flushed. If a store is opened and finds the mark, the last commits may be missing: the counter goes on at the
// mark, and watches have to start anew.
//
// The mark is SQLite's user_version, which is part of transactions as rows are, in units of aheadUnit; 0 means no mark.
// It has 32 bits, and a counter that a restore has raised has more units than that: then it is negative, and has only
// the last digits of the mark, to the base aheadTurn. This fails if flushed data is lost, or counts as newer than data
// that was not flushed: with synchronous=off the file may not be readable at all.
type ahead struct {
	usual string // setting of synchronous; empty: every commit is flushed, and no mark is needed
	mark  int64  // a revision
}

// aheadUnit is how many revisions cost one flush; at most twice as many are skipped after a power cut.
const aheadUnit = 1 << 16

// aheadTurn is the number of units from which a mark is stored by its last digits only.
const aheadTurn = 1<<31 - 1

// userVersion encodes a mark.
func userVersion(mark int64) int64 {
	units := mark / aheadUnit
	if units < aheadTurn {
		return units
	}
	return -units%aheadTurn - 1
}

// markOf decodes a user_version. Of the marks with the same last digits, it returns the one nearest to the counter,
// whose last commits may be missing.
func markOf(userVersion, revision int64) int64 {
	if userVersion >= 0 {
		return userVersion * aheadUnit
	}
	at := revision / aheadUnit
	units := at - at%aheadTurn - userVersion - 1
	switch {
	case units < at-aheadTurn/2:
		units += aheadTurn
	case units > at+aheadTurn/2:
		units -= aheadTurn
	}
	return units * aheadUnit
}

func newAhead(synchronous string) ahead {
	if synchronous == "full" || synchronous == "extra" {
		return ahead{}
	}
	return ahead{usual: synchronous}
}

// covers reports whether a revision can be assigned without a flush.
func (a *ahead) covers(revision int64) bool { return a.usual == "" || revision <= a.mark }

// next returns a mark that covers a revision, and many after it.
func (a *ahead) next(revision int64) int64 { return (revision/aheadUnit + 2) * aheadUnit }

// flushed calls f, which commits, such that its commit is flushed, together with all earlier commits.
func (d *sqliteDriver) flushed(f func() error) error {
	if d.ahead.usual == "" {
		return f()
	}
	ctx := context.Background()
	if _, err := d.writer.ExecContext(ctx, "PRAGMA synchronous = full"); err != nil {
		return unavailable(err)
	}
	err := f()
	_, _ = d.writer.ExecContext(ctx, "PRAGMA synchronous = "+d.ahead.usual) // if this fails, the following commits are flushed as well
	return err
}

// setMark runs within a transaction.
func (d *sqliteDriver) setMark(ctx context.Context, revision int64) error {
	_, err := d.writer.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", userVersion(revision)))
	return err
}

// recover makes the counter go on at the mark, if the store was not closed.
func (d *sqliteDriver) recover(ctx context.Context, logger *slog.Logger) error {
	var version, revision int64
	if err := d.writer.QueryRowContext(ctx, "SELECT user_version, revision FROM pragma_user_version, meta").Scan(&version, &revision); err != nil {
		return err
	}
	if version == 0 {
		return nil
	}
	mark := markOf(version, revision)
	if mark > revision {
		logger.Warn("the store was not closed, and its last commits were not flushed to the disk (--sqlite-synchronous): some may be lost. "+
			"The counter of revisions jumps ahead, watches have to start anew", "from", revision, "to", mark)
	}
	return d.flushed(func() error {
		return d.transaction(func(ctx context.Context) error {
			// Nothing after a failure, which may have ended the transaction: the mark would go without the jump.
			if mark > revision {
				if _, err := d.writer.ExecContext(ctx, deleteLogSQL); err != nil {
					return err
				}
				if _, err := d.writer.ExecContext(ctx, "UPDATE meta SET revision = $1, floor = $1, history_bytes = 0", mark); err != nil {
					return err
				}
			}
			return d.setMark(ctx, 0)
		})
	})
}

// seal removes the mark. If that fails, the counter jumps at the next start.
func (d *sqliteDriver) seal() {
	if d.ahead.mark == 0 {
		return
	}
	_ = d.flushed(func() error {
		return d.transaction(func(ctx context.Context) error { return d.setMark(ctx, 0) })
	})
}
