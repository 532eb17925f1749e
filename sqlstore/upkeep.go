package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// This file has what the janitor asks of the tables.

// oldChange is what pruning needs to know of a change.
type oldChange struct{ revision, at, size int64 }

// oldest returns the first changes after a revision.
func (d *database) oldest(ctx context.Context, after int64, limit int) (changes []oldChange, err error) {
	err = eachRow(d.reads.QueryContext(ctx, selectOldestSQL, after, limit))(func(scan func(...any) error) error {
		var c oldChange
		if err := scan(&c.revision, &c.at, &c.size); err != nil {
			return unavailable(err)
		}
		changes = append(changes, c)
		return nil
	})
	return changes, err
}

// prune deletes the changes up to a revision, which hold so many bytes.
func (d *database) prune(floor, bytes int64) error {
	return d.transaction(func(ctx context.Context) error {
		if _, err := d.writer.ExecContext(ctx, deleteChangesSQL, floor); err != nil {
			return err
		}
		_, err := d.writer.ExecContext(ctx, updateFloorSQL, floor, bytes)
		return err
	})
}

// due returns the deletions of objects whose lifetime has ended.
func (d *database) due(ctx context.Context, now time.Time, limit int) (writes []resources.Write, err error) {
	err = eachRow(d.reads.QueryContext(ctx, selectDueSQL, now.UnixMilli(), limit))(func(scan func(...any) error) error {
		w := resources.Write{Op: resources.Delete}
		if err := scan(&w.Key.Resource, &w.Key.Namespace, &w.Key.Name, &w.From); err != nil {
			return unavailable(err)
		}
		writes = append(writes, w)
		return nil
	})
	return writes, err
}

// nextDue returns when the next lifetime ends; zero when there is none.
func (d *database) nextDue(ctx context.Context) (time.Time, error) {
	var expires int64
	err := d.reads.QueryRowContext(ctx, selectNextDueSQL).Scan(&expires)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, unavailable(err)
	}
	return milliseconds(expires), nil
}

// touch commits a change of nothing, to see whether commits work.
func (d *database) touch() error {
	return d.transaction(func(ctx context.Context) error {
		_, err := d.writer.ExecContext(ctx, "UPDATE meta SET floor = floor")
		return err
	})
}

// size returns the bytes of the database.
func (d *database) size(ctx context.Context) (bytes int64, err error) {
	err = d.reads.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes)
	return bytes, err
}

// vacuum returns up to so many free pages to the file system, if they are more than an eighth of the file and more than
// a step. more says whether it is worth going on.
func (d *database) vacuum(pages int) (more bool, err error) {
	ctx := context.Background()
	var free, all int
	const count = "SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count"
	err = d.writer.QueryRowContext(ctx, count).Scan(&free, &all)
	if err != nil {
		return false, unavailable(err)
	}
	if free <= pages || free <= all/8 {
		return false, nil
	}
	rows, err := d.writer.QueryContext(ctx, "PRAGMA incremental_vacuum("+strconv.Itoa(pages)+")")
	// The pragma frees a page per row it is stepped through.
	return true, eachRow(rows, err)(func(func(...any) error) error { return nil })
}

// checkpoint moves the write-ahead log into the file and cuts it to nothing.
func (d *database) checkpoint() error {
	rows, err := d.writer.QueryContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	return eachRow(rows, err)(func(func(...any) error) error { return nil })
}
