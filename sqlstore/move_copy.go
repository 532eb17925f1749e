package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// movePage is how many rows are compared at a time.
	movePage = 2000
	// moveTold is how many rows are copied between two calls of progress.
	moveTold = 1000
)

// Copy makes the target equal to the present state of the source. If the log of the source reaches back to the target's
// state, the changes of the log are copied; otherwise all rows are compared, and those that differ are copied: two rows
// with the same key and revision are equal. If all rows are compared, those that were copied stay when Copy ends early.
func (m *Move) Copy(ctx context.Context, progress func(MoveProgress)) error {
	_, err := m.copyState(ctx, progress)
	return err
}

// copyState is Copy, and returns an upper bound of all revisions of the source.
func (m *Move) copyState(ctx context.Context, progress func(MoveProgress)) (beyond int64, err error) {
	source, err := OpenSource(ctx, m.from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	state := source.State()
	if state.Revision == m.seen {
		return state.Beyond, nil
	}
	var floor int64
	if err := source.tx.QueryRowContext(ctx, "SELECT floor FROM meta").Scan(&floor); err != nil {
		return 0, fmt.Errorf("read the floor of the source: %w", err)
	}
	if m.seen > 0 && floor <= m.seen && m.seen <= state.Revision {
		err = m.copyLog(ctx, source, progress)
	} else {
		err = m.compareAll(ctx, source, progress)
	}
	if err != nil {
		return 0, err
	}
	m.seen = state.Revision
	return state.Beyond, nil
}

// changedSQL selects the keys that the log has after a revision.
const changedSQL = `(SELECT DISTINCT resource, namespace, name FROM changes WHERE revision > $1) c`

// copyLog copies the objects that changed since the target's state.
func (m *Move) copyLog(ctx context.Context, source *Source, progress func(MoveProgress)) error {
	p := MoveProgress{Table: "objects", Revision: source.state.Revision}
	if err := source.tx.QueryRowContext(ctx, "SELECT count(*) FROM "+changedSQL, m.seen).Scan(&p.Of); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return m.target.do(ctx, func(tx *sql.Tx) error {
		const same = " o.resource = c.resource AND o.namespace = c.namespace AND o.name = c.name"
		w := m.target.writer(tx, &sourceTables[0])
		err := source.eachOf(ctx, "objects", "SELECT c.* FROM "+changedSQL+" WHERE NOT EXISTS (SELECT 1 FROM objects o WHERE"+same+")", w.columnsAre,
			func(key []any) error {
				p.Rows, p.Different = p.Rows+1, p.Different+1
				return w.remove(ctx, key)
			}, m.seen)
		if err != nil {
			return err
		}
		// CROSS JOIN makes SQLite begin with the keys.
		err = source.eachOf(ctx, "objects", "SELECT o.* FROM "+changedSQL+" CROSS JOIN objects o WHERE"+same, w.columnsAre, func(row []any) error {
			if p.Rows, p.Different = p.Rows+1, p.Different+1; p.Rows%moveTold == 0 {
				progress(p)
			}
			return w.put(ctx, row)
		}, m.seen)
		if err := errors.Join(err, w.flush(ctx)); err != nil {
			return err
		}
		progress(p)
		return m.target.note(ctx, tx, source.state.Revision)
	})
}

// compareAll copies the rows that differ, of all tables, in steps that stay.
func (m *Move) compareAll(ctx context.Context, source *Source, progress func(MoveProgress)) error {
	// From here on the target has parts of two states.
	m.seen = 0
	if err := m.target.do(ctx, func(tx *sql.Tx) error { return m.target.note(ctx, tx, 0) }); err != nil {
		return err
	}
	for i := range sourceTables {
		if err := m.compare(ctx, source, &sourceTables[i], progress); err != nil {
			return fmt.Errorf("copy the table %s: %w", sourceTables[i].name, err)
		}
	}
	return m.target.do(ctx, func(tx *sql.Tx) error { return m.target.note(ctx, tx, source.state.Revision) })
}

func (m *Move) compare(ctx context.Context, source *Source, t *sourceTable, progress func(MoveProgress)) error {
	p := MoveProgress{Table: t.name, Revision: source.state.Revision}
	if err := source.tx.QueryRowContext(ctx, "SELECT count(*) FROM "+t.name).Scan(&p.Of); err != nil {
		return err
	}
	var after []any
	for {
		page, err := t.keysOf(ctx, source.tx, after, nil, movePage)
		if err != nil {
			return err
		}
		var upTo []any // nil: up to the end
		if len(page) == movePage {
			upTo = page[len(page)-1].key
		}
		err = m.target.do(ctx, func(tx *sql.Tx) error {
			different, err := m.comparePage(ctx, source, tx, t, page, after, upTo)
			p.Different += different
			return err
		})
		if err != nil {
			return err
		}
		p.Rows += int64(len(page))
		progress(p)
		if upTo == nil {
			return nil
		}
		after = upTo
	}
}

// comparePage makes the part of a table between two keys equal to the source.
func (m *Move) comparePage(ctx context.Context, source *Source, tx *sql.Tx, t *sourceTable, page []rowKey, after, upTo []any) (different int64, err error) {
	have, err := t.keysOf(ctx, tx, after, upTo, 0)
	if err != nil {
		return 0, err
	}
	versions := make(map[string]int64, len(have))
	for _, row := range have {
		versions[row.text()] = row.version
	}
	var versionsToCopy []string
	for _, row := range page {
		version, ok := versions[row.text()]
		if delete(versions, row.text()); !ok || version != row.version {
			versionsToCopy = append(versionsToCopy, strconv.FormatInt(row.version, 10))
		}
	}
	w := m.target.writer(tx, t)
	for _, row := range have {
		if _, gone := versions[row.text()]; gone {
			different++
			if err := w.remove(ctx, row.key); err != nil {
				return 0, err
			}
		}
	}
	if len(versionsToCopy) == 0 {
		return different, nil
	}
	where, args := t.between(after, upTo)
	if len(versionsToCopy) < len(page) {
		args = append(args, strings.Join(versionsToCopy, ","))
		some := "%s IN (SELECT value FROM json_each('[' || $%d || ']'))"
		if source.postgres {
			some = "%s = ANY (string_to_array($%d, ',')::bigint[])"
		}
		where += " AND " + fmt.Sprintf(some, t.version, len(args))
	}
	err = source.eachOf(ctx, t.name, "SELECT * FROM "+t.name+" WHERE "+where, w.columnsAre, func(row []any) error {
		different++
		return w.put(ctx, row)
	}, args...)
	return different, errors.Join(err, w.flush(ctx))
}

// rowKey identifies a row, and its version.
type rowKey struct {
	key     []any
	version int64
}

func (r *rowKey) text() string {
	var b strings.Builder
	for _, part := range r.key {
		fmt.Fprintf(&b, "%v\x00", part)
	}
	return b.String()
}

// between returns a condition on keys, either of which may be nil, and its arguments.
func (t *sourceTable) between(after, upTo []any) (where string, args []any) {
	where = "1 = 1"
	for _, bound := range []struct {
		by  string
		key []any
	}{{">", after}, {"<=", upTo}} {
		if bound.key == nil {
			continue
		}
		places := make([]string, len(bound.key))
		for i := range places {
			places[i] = "$" + strconv.Itoa(len(args)+i+1)
		}
		where += " AND (" + t.keys + ") " + bound.by + " (" + strings.Join(places, ", ") + ")"
		args = append(args, bound.key...)
	}
	return where, args
}

// keysOf reads the keys of rows in their order: limit of them or, with 0, all.
func (t *sourceTable) keysOf(ctx context.Context, tx *sql.Tx, after, upTo []any, limit int) (keys []rowKey, err error) {
	where, args := t.between(after, upTo)
	statement := "SELECT " + t.keys + ", " + t.version + " FROM " + t.name + " WHERE " + where + " ORDER BY " + t.keys
	if limit > 0 {
		statement += " LIMIT " + strconv.Itoa(limit)
	}
	rows, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	n := strings.Count(t.keys, ",") + 1
	for rows.Next() {
		row := rowKey{key: make([]any, n)}
		into := make([]any, 0, n+1)
		for i := range row.key {
			into = append(into, &row.key[i])
		}
		if err := rows.Scan(append(into, &row.version)...); err != nil {
			return nil, err
		}
		keys = append(keys, row)
	}
	return keys, rows.Err()
}
