package sqlstore

import (
	"context"
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
