package sqlstore

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources/views"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// zeros is a view that no database accepts; reserved is one that SQLite refuses because of its name, and Postgres
// because of its columns.
var (
	zeros = views.View{Name: "zeros.example.com", Resource: "zeros.example.com", Columns: []views.Column{
		{Name: "z", Kind: views.Find, Path: views.Members("spec"), Member: "type", Value: "a\x00b", Other: views.Members("status")}}}
	reserved = views.View{Name: "sqlite_reserved", Resource: "reserved.example.com", Columns: []views.Column{
		{Name: "n", Kind: views.Number, Path: views.Members("n")}, {Name: "n", Kind: views.Number, Path: views.Members("m")}}}
)

// A view that cannot be created does not prevent others, is reported, and is created as soon as possible.
func TestViewsThatAreRefused(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		s.put(t, "widgets.example.com", "a", "w", `},"spec":{"n":3}}`)
		broken := []string{reserved.Name, zeros.Name}
		for range 2 {
			left, err := s.KeepViews(t.Context(), []views.View{zeros, reserved, widgetsView})
			if names := slices.Sorted(maps.Keys(left)); err != nil || !slices.Equal(names, broken) {
				t.Errorf("left are %v, %v", left, err)
			}
			if rows := s.native(t, `SELECT n FROM "widgets.example.com"`); len(rows) != 1 || rows[0][0] != "3" {
				t.Errorf("the other view has %q", rows)
			}
		}
		source, err := OpenSource(t.Context(), s.options)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		var refused []string
		rows := 0
		if _, err := source.Query(t.Context(), QueryOptions{Views: []views.View{zeros, reserved, widgetsView}, Text: `SELECT n FROM "widgets.example.com"`, MaxRows: 10,
			Refused: func(name string, _ error) { refused = append(refused, name) },
			Columns: func([]string) error { return nil }, Row: func([]any) error { rows++; return nil }}); err != nil || rows != 1 {
			t.Errorf("a query of another view has %d rows, %v", rows, err)
		}
		if slices.Sort(refused); !slices.Equal(refused, broken) {
			t.Errorf("refused are %v", refused)
		}
		mended := zeros
		mended.Columns = nil
		s.keep(t, mended, widgetsView)
		s.bothButAge(t, "zeros.example.com", mended)
	})
}

// A view that is being read stays as it was for the moment, and the others are created.
func TestViewsThatAreRead(t *testing.T) {
	h := newPostgresHarness(t)
	s := viewed{h.store, h.options()}
	pods := views.OfBuiltin("pods")
	s.keep(t, pods, widgetsView)
	db, err := sql.Open("pgx", s.options.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reader, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback() //nolint:errcheck // it fails where the test has ended it
	if _, err := reader.Exec("LOCK TABLE " + nameSQL(s.options.Schema+viewsSuffix) + `."widgets.example.com" IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	other := widgetsView
	other.Columns = widgetsView.Columns[:1]
	nodes := views.OfBuiltin("nodes")
	left, err := s.KeepViews(t.Context(), []views.View{nodes, other, pods})
	if err != nil || len(left) != 1 || left[other.Name] == nil {
		t.Errorf("left are %v, %v", left, err)
	}
	s.native(t, "SELECT * FROM nodes")
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.keep(t, nodes, other, pods)
	if _, err := sqltest.Ask(t.Context(), s.options.URL, s.options.Schema, `SELECT ready FROM "widgets.example.com"`); err == nil {
		t.Error("the view is what it was")
	}
}

// The database ends a transaction that does not go on, because it holds the lock of the views.
func TestViewsAreBounded(t *testing.T) {
	h := newPostgresHarness(t)
	p := h.store.db.driver.(*postgresDriver)
	tx, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it has only read
	k := viewKeeper{tx: tx, postgresDriver: p}
	if err := k.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{"lock_timeout": viewsLockTimeout, "statement_timeout": p.limits.step, "idle_in_transaction_session_timeout": p.limits.idle} {
		var got int64
		if err := tx.QueryRow(t.Context(), "SELECT setting::bigint FROM pg_settings WHERE name = $1", name).Scan(&got); err != nil || got != want.Milliseconds() {
			t.Errorf("%s is %d ms, want %v: %v", name, got, want, err)
		}
	}
}

// A definition with more columns than a view can have gets a view of the first ones, and the views of other types are
// not affected.
func TestViewOfManyColumns(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		columns := make([]string, 2100)
		for i := range columns {
			columns[i] = fmt.Sprintf(`{"name":"c%d","type":"string","jsonPath":".spec.p%d"}`, i, i)
		}
		wide, ok := views.OfDefinition([]byte(`{"status":{"conditions":[{"type":"Established","status":"True"}]},"spec":{"group":"example.com","names":{"plural":"wides"},
			"versions":[{"name":"v1","storage":true,"additionalPrinterColumns":[` + strings.Join(columns, ",") + `]}]}}`))
		if !ok {
			t.Fatal("it has no view")
		}
		s.put(t, "wides.example.com", "a", "w", `},"spec":{"p0":"first","p899":"last"}}`)
		s.put(t, "widgets.example.com", "a", "w", `},"spec":{"n":1}}`)
		s.keep(t, wide, widgetsView)
		if rows := s.both(t, `SELECT name, c0, c899 FROM "wides.example.com"`, wide, widgetsView); len(rows) != 1 || strings.Join(rows[0], " ") != "w first last" {
			t.Errorf("%q", rows)
		}
		if rows := s.bothButAge(t, "wides.example.com", wide, widgetsView); len(rows) != 1 {
			t.Errorf("%q", rows)
		}
		if rows := s.both(t, `SELECT n FROM "widgets.example.com"`, wide, widgetsView); len(rows) != 1 {
			t.Errorf("%q", rows)
		}
	})
}

// Columns of a definition have its types, whether or not a filter is in their JSONPath, and a value that is not of its column's type is NULL. A
// column whose title becomes a name that is used already has another name.
func TestViewHasTypesOfDefinition(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		column := func(name, kind, path string) string {
			return fmt.Sprintf(`{"name":%q,"type":%q,"jsonPath":%q}`, name, kind, path)
		}
		v, ok := views.OfDefinition([]byte(`{"status":{"conditions":[{"type":"Established","status":"True"}]},"spec":{"group":"example.com","names":{"plural":"boats"},
			"versions":[{"name":"v1","storage":true,"additionalPrinterColumns":[` + strings.Join([]string{column("N", "integer", ".spec.n"), column("N!", "integer", `.spec.list[?(@.k=="a")].v[0].n`),
			column("Share", "number", `.spec.list[?(@.k=="a")].share`), column("On", "boolean", `.spec.list[?(@.k=="a")].on`), column("Text", "string", `.spec.list[?(@.k=="a")].text`)}, ",") + `]}]}}`))
		if !ok {
			t.Fatal("it has no view")
		}
		for name, list := range map[string]string{"right": `[{"k":"b","share":9},{"k":"a","v":[{"n":4}],"share":0.5,"on":true,"text":"t"}]`, "wrong": `[{"k":"a","v":[{"n":"4"}],"share":true,"on":"true","text":null}]`, "none": `7`} {
			s.put(t, "boats.example.com", "a", name, `},"spec":{"n":3,"list":`+list+`}}`)
		}
		s.keep(t, v)
		rows := s.both(t, `SELECT name, n, n_2, share, "on", "text" FROM "boats.example.com" ORDER BY name`, v)
		if want := `[[none 3 <nil> <nil> <nil> <nil>] [right 3 4 0.5 1 t] [wrong 3 <nil> <nil> <nil> <nil>]]`; fmt.Sprint(rows) != want {
			t.Errorf("%q, want %s", rows, want)
		}
		if rows := s.both(t, `SELECT name, n_2 + 1 FROM "boats.example.com" WHERE n_2 > n AND "on"`, v); fmt.Sprint(rows) != "[[right 5]]" {
			t.Errorf("by numbers there are %q", rows)
		}
	})
}
