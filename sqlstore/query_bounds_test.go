package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/views"
)

// Rows are read in pages that are bounded in bytes as well, however many rows there are, and each row is in one page.
func TestQueryPages(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		const each, objects = 1 << 20, 11
		for i := range objects {
			s.put(t, "configmaps", "a", fmt.Sprintf("c%02d", i), `},"data":{"k":"`+strings.Repeat("x", each)+`"}}`)
		}
		for i := range queryPage {
			s.put(t, "pods", "a", fmt.Sprintf("p%03d", i), `}}`)
		}
		source, err := OpenSource(t.Context(), s.options)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		c := &rowsCursor{rowsTable: &rowsTable{queryTables: &queryTables{source: source, ctx: t.Context()}, bound: 3, wide: objectData}, equal: make([]*string, 3)}
		seen := map[string]bool{}
		for !c.over {
			page, err := c.objects()
			if err != nil {
				t.Fatal(err)
			}
			bytes := 0
			for _, row := range page {
				bytes += textOf(row)
				seen[fmt.Sprint(row[:3])] = true
			}
			if bytes > queryBytes+each+1000 || len(page) > queryPage {
				t.Errorf("a page has %d rows of %d bytes", len(page), bytes)
			}
		}
		if len(seen) != objects+queryPage {
			t.Errorf("%d objects", len(seen))
		}
		rows, err := s.query(t, "SELECT count(*), sum(length(object)) > 11000000 FROM configmaps", views.OfBuiltin("configmaps"))
		if err != nil || fmt.Sprint(rows) != "[[11 1]]" {
			t.Errorf("%q, %v", rows, err)
		}
	})
}

// A query can neither pass in rows of its own, nor compute values of unbounded size.
func TestQueryOfHarm(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		for _, statement := range []string{"SELECT rowlock_emit(1, 2, 3)", "SELECT 1 WHERE rowlock_emit_(1) IS NULL", fmt.Sprintf("SELECT length(zeroblob(%d))", valueMost+1),
			fmt.Sprintf("SELECT length(replace(hex(zeroblob(%d)), '0', 'xxx'))", valueMost/4)} {
			if rows, err := s.query(t, statement); err == nil {
				t.Errorf("%s: %q", statement, rows)
			}
		}
		// Even a query that knows the function's name, which is random, cannot pass in a row of a wrong form.
		source, err := OpenSource(t.Context(), s.options)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		q := &asking{tables: &queryTables{source: source, ctx: t.Context()}, emit: emitFunction + "known", QueryOptions: QueryOptions{MaxRows: 10,
			Columns: func([]string) error { return nil }, Row: func(row []any) error {
				if len(row) != 1 {
					t.Errorf("a row is %v", row)
				}
				return nil
			}}}
		if err := q.run(context.Background(), "SELECT rowlock_emit_known(1, 2)"); err == nil {
			t.Error("it has handed in a row")
		}
	})
}

// A text continues after U+0000, and backslashes are kept; of JSON that is too deep for SQLite the names are shown.
func TestQueryOfOddJSON(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		s.put(t, "widgets.example.com", "a", "zero", `,"annotations":{"z":"a\u0000b\u0000","y":"a\\u0000b","x":"\\\u0000"}}}`)
		s.put(t, "widgets.example.com", "a", "deep", `},"kind":"Widget","spec":`+strings.Repeat("[", 1001)+strings.Repeat("]", 1001)+`}`)
		rows, err := s.query(t, `SELECT annotations ->> '$.z', annotations ->> '$.y', annotations ->> '$.x' FROM "widgets.example.com" WHERE name = 'zero'`, widgetsView)
		if want := [][]string{{"a\ufffdb\ufffd", `a\u0000b`, "\\\ufffd"}}; err != nil || !slices.EqualFunc(rows, want, slices.Equal) {
			t.Errorf("%q, %v", rows, err)
		}
		rows, err = s.query(t, `VALUES ('a' || char(0) || 'b', x'00ff00', '', x''), (char(0), x'00', 1, NULL)`)
		if want := [][]string{{"a\x00b", "[0 255 0]", "", "[]"}, {"\x00", "[0]", "1", "<nil>"}}; err != nil || !slices.EqualFunc(rows, want, slices.Equal) {
			t.Errorf("%q, %v", rows, err)
		}
		rows, err = s.query(t, `SELECT resource, namespace, name FROM all_objects WHERE kind IS NULL AND NOT encrypted AND name = 'deep'`, widgetsView)
		if len(rows) != 1 || err != nil {
			t.Errorf("%q, %v", rows, err)
		}
	})
}

// The escape of U+0000 is replaced, and the text \u0000, whose backslash is escaped, stays: by rowlock sql, and by the views in Postgres.
func TestViewsReplaceZeros(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		s.keep(t, widgetsView)
		if _, err := s.Commit(sentBy(t, "ann", "", "create", "c\x00\\u0000"), object(t, "gadgets.example.com", "a", "other", "u", `"x":1`)); err != nil {
			t.Fatal(err)
		}
		s.put(t, "widgets.example.com", "a", "zero", `,"annotations":{"z":"a\u0000b\u0000\\u0000 \\\u0000\\\\u0000 \"\u0000\"\\ \u0001"}},"kind":"\\u0000"}`)
		for statement, want := range map[string]string{
			`SELECT annotations ->> 'z', pair FROM "widgets.example.com"`: "a\ufffdb\ufffd\\u0000 \\\ufffd\\\\u0000 \"\ufffd\"\\ \x01|zero/\\u0000",
			`SELECT agent, op FROM all_changes WHERE by_user = 'ann'`:     "c\ufffd\\u0000|create",
		} {
			rows, err := s.query(t, statement, widgetsView)
			if isPostgres(s.options.URL) { // in a file, a text ends at U+0000
				rows = s.both(t, statement, widgetsView)
			}
			if err != nil || len(rows) != 1 || strings.Join(rows[0], "|") != want {
				t.Errorf("%s: %q, %v; want %q", statement, rows, err, want)
			}
		}
	})
}

// No query writes anything, and every query ends.
func TestQueryOnlyReads(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		s.put(t, "pods", "a", "p", `}}`)
		pods := views.OfBuiltin("pods")
		file := t.TempDir() + "/x.db"
		for _, statement := range []string{"DELETE FROM pods", "WITH x AS (SELECT 1) DELETE FROM pods", "WITH x AS (SELECT 1) UPDATE objects SET name = 'x'",
			"SELECT 1; DELETE FROM objects", "SELECT 1;;SELECT 2", "ATTACH '" + file + "' AS x", "PRAGMA query_only = false", "VACUUM INTO '" + file + "'",
			"CREATE TABLE x (y)", "DROP VIEW pods", "COPY pods TO PROGRAM 'true'", "BEGIN", "", "-- SELECT 1", "/* SELECT 1", ";", "EXPLAIN SELECT 1"} {
			if rows, err := s.query(t, statement, pods); !errors.Is(err, ErrNotAQuery) {
				t.Errorf("%s: %q, %v", statement, rows, err)
			}
		}
		for _, statement := range []string{"SELECT * FROM nothing", "SELECT load_extension('x')", "SELECT readfile('/etc/passwd')", "SELECT 1) SELECT (2", "SELECT 'x", "SELECT pg_read_file('x')"} {
			if rows, err := s.query(t, statement, pods); err == nil {
				t.Errorf("%s: %q", statement, rows)
			}
		}
		for statement, want := range map[string]string{"SELECT ';' AS a, 2 AS a ; -- and no more": "[[; 2]]", "VALUES (1), (2)": "[[1] [2]]", "/* x */ with x as (select name from pods) select * from x": "[[p]]",
			"SELECT name \"a;b\", [name], `name` FROM pods --": "[[p p p]]"} {
			if rows, err := s.query(t, statement, pods); err != nil || fmt.Sprint(rows) != want {
				t.Errorf("%s: %q, %v, want %s", statement, rows, err, want)
			}
		}
		source, err := OpenSource(t.Context(), s.options)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		ctx, cancel := context.WithCancel(t.Context())
		_, err = source.Query(ctx, QueryOptions{Text: "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r WHERE n IN (1, -1)", MaxRows: 10,
			Columns: func([]string) error { return nil }, Row: func([]any) error { cancel(); return nil }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a query without an end ended with %v", err)
		}
	})
}

// Rows are counted, and an error of the callback ends the query.
func TestQueryBounds(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		for i := range 2*queryPage + 1 {
			s.put(t, "pods", "a", fmt.Sprintf("p%04d", i), `}}`)
		}
		source, err := OpenSource(t.Context(), s.options)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		pods := []views.View{views.OfBuiltin("pods")}
		for most, wantMore := range map[int]bool{2 * queryPage: true, 2*queryPage + 1: false, 1: true} {
			rows := 0
			more, err := source.Query(t.Context(), QueryOptions{Views: pods, Text: "SELECT name FROM pods ORDER BY name", MaxRows: most,
				Columns: func([]string) error { return nil }, Row: func([]any) error { rows++; return nil }})
			if err != nil || more != wantMore || rows != most {
				t.Errorf("at most %d: %d rows, more: %t, %v", most, rows, more, err)
			}
		}
		full := errors.New("the disk is full")
		if _, err := source.Query(t.Context(), QueryOptions{Views: pods, Text: "SELECT name FROM pods", MaxRows: 10,
			Columns: func([]string) error { return nil }, Row: func([]any) error { return full }}); !errors.Is(err, full) {
			t.Errorf("who cannot write gets %v", err)
		}
	})
}
