package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/migrations"
)

// schema checks that the tables are those of their version.
func (v *verifier) schema(ctx context.Context) error {
	var rows int
	var dirty bool
	if err := v.tx.QueryRowContext(ctx, "SELECT count(*) FROM schema_migrations").Scan(&rows); err != nil {
		return err
	}
	if rows != 1 {
		v.found("schema_migrations", doCopy, "has %d rows, and not one", rows)
		return nil
	}
	if err := v.tx.QueryRowContext(ctx, "SELECT dirty FROM schema_migrations").Scan(&dirty); err != nil {
		return err
	}
	known, err := migrations.Known(v.state.Kind)
	if err != nil {
		return err
	}
	switch {
	case dirty:
		v.found("schema_migrations", "see docs/operations.md, When it does not start", "a change of the tables was begun and not finished")
		return nil
	case v.state.Version > known:
		v.found("schema_migrations", "use a rowlock of the version that made it", "the tables have version %d, and this rowlock knows versions up to %d", v.state.Version, known)
		return nil
	}
	if v.postgres {
		return v.postgresTables(ctx)
	}
	return v.sqliteTables(ctx)
}

func (v *verifier) sqliteTables(ctx context.Context) error {
	want, err := migrations.SQLiteTables(ctx, v.state.Version)
	if err != nil {
		return err
	}
	have, err := v.texts(ctx, migrations.SQLiteTablesSQL)
	if err != nil {
		return err
	}
	v.compareTables(want, have)
	return v.sqliteValues(ctx)
}

// movedParts are the beginnings of the objects that fence.last creates in a file.
var movedParts = []string{"table moved ", "trigger moved_changes ", "trigger moved_meta "}

func (v *verifier) compareTables(want, have []string) {
	v.missing(want, have)
	v.others(want, have)
}

// missing reports expected parts that do not exist.
func (v *verifier) missing(want, have []string) {
	for _, statement := range want {
		if !slices.Contains(have, statement) {
			v.found("database", doCopy, "has not, or not so: %s", statement)
		}
	}
}

// others reports parts that exist and are not expected.
func (v *verifier) others(want, have []string) {
	for _, statement := range have {
		if strings.HasPrefix(statement, "table "+litestreamTable) {
			continue // Litestream, which copies the file as it changes, notes its position there
		}
		if (v.state.Moved != "" || v.postgres) && slices.ContainsFunc(movedParts, func(part string) bool { return strings.HasPrefix(statement, part) }) {
			continue // without them, a moved store would take writes again; in Postgres an unfinished move leaves them, too, and the next one needs them
		}
		if !slices.Contains(want, statement) {
			v.found("database", "remove it, unless you know why it is there", "has something that rowlock did not make: %s", statement)
		}
	}
}

// texts returns the rows of a statement that has one column of text.
func (v *verifier) texts(ctx context.Context, statement string) (texts []string, err error) {
	rows, err := v.tx.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// postgresIndexes are the indexes of the tables, with the order that each makes, and which rows a partial one has.
var postgresIndexes = []struct{ name, table, order, where string }{
	{"objects_pkey", "objects", "resource, namespace, name", ""},
	{"objects_expires", "objects", "expires", "expires IS NOT NULL"},
	{"changes_pkey", "changes", "revision", ""},
	{"changes_resource", "changes", "resource, revision", ""},
	{"revisions_pkey", "revisions", "revision", ""},
	{"revisions_object", "revisions", "resource, namespace, name, revision", ""},
	{"revisions_at", "revisions", "at", ""},
	{"revisions_trash", "revisions", "revision", "op = 'delete'"},
}

// indexes checks that the indexes have all rows, and no others.
func (v *verifier) indexes(ctx context.Context) error {
	if !v.postgres {
		problems, err := v.texts(ctx, "PRAGMA integrity_check(100)")
		for _, problem := range problems {
			if problem != "ok" {
				v.found("database", "if only indexes are named, stop the server and run: sqlite3 rowlock.db REINDEX. Else "+doDisk, "%s", problem)
			}
		}
		return err
	}
	history, err := hasTable(ctx, v.tx, true, "revisions")
	if err != nil {
		return err
	}
	for _, index := range postgresIndexes {
		if index.table == "revisions" && !history { // before version 4
			continue
		}
		var sums [2]string
		for i, byIndex := range []bool{false, true} {
			if err := v.readBy(ctx, byIndex); err != nil {
				return err
			}
			// With the same text for both, a connection that prepares statements would keep the plan of the first one.
			statement := fmt.Sprintf("SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t.row, 0)), 0) FROM ("+
				"SELECT resource || ' ' || namespace || ' ' || name || ' ' || revision AS row FROM %s WHERE %s ORDER BY %s) AS t -- %t",
				index.table, cmp.Or(index.where, "true"), index.order, byIndex)
			if err := v.tx.QueryRowContext(ctx, statement).Scan(&sums[i]); err != nil {
				return fmt.Errorf("index %s: %w", index.name, err)
			}
		}
		if sums[0] != sums[1] {
			v.found("database", "stop the servers and run REINDEX TABLE "+index.table, "the index %s has other rows than its table", index.name)
		}
	}
	return v.readBy(ctx, false) // the following checks read the tables
}

// readBy makes Postgres read tables by an index, or not by any. It uses the index with the requested order, because it
// must not sort the rows of another one.
func (v *verifier) readBy(ctx context.Context, index bool) error {
	_, err := v.tx.ExecContext(ctx, `SELECT set_config('enable_seqscan', $1, true), set_config('enable_indexscan', $2, true),
set_config('enable_sort', $1, true), set_config('enable_incremental_sort', $1, true),
set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`, onOff(!index), onOff(index))
	return err
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
