package sqlstore

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/views"
)

// emptyTables opens an empty database with the tables that the views read.
func emptyTables(f *testing.F) *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // each connection would have its own database
	for _, s := range []string{
		"CREATE TABLE objects (resource TEXT, namespace TEXT, name TEXT, revision INTEGER, data TEXT)",
		"INSERT INTO objects VALUES ('widgets.example.com', 'a', 'b', 1, '{\"spec\":{\"size\":1,\"list\":[{\"type\":\"a\",\"status\":\"b\"}]}}')",
	} {
		if _, err := db.Exec(s); err != nil {
			f.Fatal(err)
		}
	}
	return db
}

// FuzzOneQuery passes any text to oneQuery: SQLite finds no second statement in its result, and the result writes
// nothing.
func FuzzOneQuery(f *testing.F) {
	for _, seed := range []string{"SELECT 1", "select 1; -- done", "/* a */ VALUES (';', \"--\", `/*`, [;]);", "SELECT 1; SELECT 2", "SELECT 'a''b;'", "INSERT INTO objects VALUES (1)",
		"WITH a AS (SELECT 1) SELECT * FROM a;;", "SELECT $$;$$", "SELECT 1 /* ", "\xff;", "SELECT\x001", "WITH a AS (SELECT 1) DELETE FROM objects", "select E'\\';'"} {
		f.Add(seed)
	}
	db := emptyTables(f)
	if _, err := db.Exec("PRAGMA query_only = on"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		query, err := oneQuery(text)
		if err != nil {
			return
		}
		if rest := strings.TrimPrefix(text, query); len(rest)+len(query) != len(text) {
			t.Fatalf("%q is no beginning of %q", query, text)
		}
		if strings.Contains(strings.ToLower(query), "recursive") {
			return // it may not terminate
		}
		var n int
		_ = db.QueryRow("SELECT count(*) FROM (" + query + "\n)").Scan(&n) // it may return anything
		if err := db.QueryRow("SELECT count(*) FROM objects").Scan(&n); err != nil || n != 1 {
			t.Fatalf("%q: %d objects are left, %v", text, n, err)
		}
	})
}

// FuzzColumnPaths passes any JSONPath of a printer column to the code that makes views of definitions: SQLite accepts
// the views.
func FuzzColumnPaths(f *testing.F) {
	for _, seed := range [][2]string{{".spec.size", "size"}, {`.spec.list[?(@.type=="a")].status`, "A"}, {".spec.list[0].type", "x"}, {`.metadata.labels.a\.b/c`, "'"}, {`.spec['a"b']`, `"`},
		{"{.spec.size}", "namespace"}, {`.spec.list[?(@.type=='it''s')].status`, ";--"}, {".spec..size", ""}, {".spec.list[99999999999]", "n"}, {".a[?(@.b==\"\x00\")].c", "z"}} {
		f.Add(seed[0], seed[1])
	}
	db := emptyTables(f)
	f.Fuzz(func(t *testing.T, path, name string) {
		if len(path)+len(name) > 1000 {
			return
		}
		column := map[string]any{"name": name, "type": "string", "jsonPath": path}
		definition, err := json.Marshal(map[string]any{
			"spec": map[string]any{"group": "example.com", "names": map[string]any{"plural": "widgets"},
				"versions": []any{map[string]any{"storage": true, "additionalPrinterColumns": []any{column}}}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		v, ok := views.OfDefinition(definition)
		if !ok {
			t.Fatalf("no view of %s", definition)
		}
		d := definedView{v.Name, inFile.query(v)}
		if d.sayable() != nil {
			return
		}
		var n int
		if err := db.QueryRow("SELECT count(*) FROM (SELECT * FROM (" + d.query + ") LIMIT 5)").Scan(&n); err != nil || n != 1 {
			t.Fatalf("%q, %q: %d rows, %v\n%s", path, name, n, err, d.query)
		}
	})
}
