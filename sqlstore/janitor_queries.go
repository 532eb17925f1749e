package sqlstore

import (
	"context"
	"math"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// This file has the queries of the janitor.

// oldChange is a change as pruning needs it, with the number of bytes that become free when it leaves history.
type oldChange struct{ revision, at, frees int64 }

// oldest returns the first changes of history.
func (d *database) oldest(ctx context.Context, limit int) (changes []oldChange, err error) {
	err = d.each(ctx, func(scan func(...any) error) error {
		var c oldChange
		if err := scan(&c.revision, &c.at, &c.frees); err != nil {
			return unavailable(err)
		}
		changes = append(changes, c)
		return nil
	}, d.oldestSQL, limit, int64(math.MaxInt64))
	return changes, err
}

// due iterates over the objects whose lifetime has ended, in the order of that time, and returns each once.
type due struct {
	at    int64          // when the lifetimes of the objects returned last end
	shown map[int64]bool // the revisions of returned objects with that end
}

// next returns the deletions of the next objects; none at the end.
func (d *due) next(ctx context.Context, db *database, now time.Time, limit int) (writes []resources.Write, err error) {
	at, shown := d.at, d.shown
	err = db.each(ctx, func(scan func(...any) error) error {
		w := resources.Write{Op: resources.Delete}
		var expires int64
		if err := scan(&w.Key.Resource, &w.Key.Namespace, &w.Key.Name, &w.From, &expires); err != nil {
			return unavailable(err)
		}
		if expires == at && shown[w.From] {
			return nil
		}
		if expires != d.at || d.shown == nil {
			d.at, d.shown = expires, map[int64]bool{}
		}
		d.shown[w.From] = true
		writes = append(writes, w)
		return nil
	}, selectDueSQL, now.UnixMilli(), at, limit+len(shown))
	return writes, err
}

// nextDue returns when the next lifetime ends; zero when there is none.
func (d *database) nextDue(ctx context.Context) (time.Time, error) {
	var next time.Time
	err := d.each(ctx, func(scan func(...any) error) error {
		var expires int64
		if err := scan(&expires); err != nil {
			return unavailable(err)
		}
		next = milliseconds(expires)
		return nil
	}, selectNextDueSQL)
	return next, err
}
