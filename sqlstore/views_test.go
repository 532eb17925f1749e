package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/views"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// viewed is a store whose views are tested.
type viewed struct {
	*Store
	options Options
}

func onViewed(t *testing.T, with value.ResourceTransformers, test func(t *testing.T, s viewed)) {
	open := func(t *testing.T, o Options) {
		o.Transformers = with
		s, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, viewed{s, o})
	}
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		o := h.options()
		o.URL += "2"
		open(t, o)
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		o := h.options()
		o.Schema += " b"
		open(t, o)
	})
}

func (s viewed) put(t *testing.T, resource, namespace, name, data string) {
	t.Helper()
	w := resources.Write{Op: resources.Create, Key: resources.Key{Resource: resource, Namespace: namespace, Name: name},
		Draft: resources.Draft{Data: []byte(fmt.Sprintf(`{"metadata":{"name":%q,"uid":"u-%s","creationTimestamp":"2023-11-14T22:13:20Z","resourceVersion":"0"%s`, name, name, data))}}
	w.Draft.RevisionStart, w.Draft.RevisionEnd, _ = resources.RevisionSpan(w.Draft.Data)
	if _, err := s.Commit(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

func (s viewed) keep(t *testing.T, wanted ...views.View) {
	t.Helper()
	if left, err := s.KeepViews(t.Context(), wanted); err != nil || len(left) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
}

// native queries the database.
func (s viewed) native(t *testing.T, statement string) [][]string {
	t.Helper()
	rows, err := sqltest.Ask(t.Context(), s.options.URL, s.options.Schema, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return rows
}

// query runs a query as rowlock sql does.
func (s viewed) query(t *testing.T, statement string, there ...views.View) (rows [][]string, err error) {
	t.Helper()
	source, err := OpenSource(t.Context(), s.options)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	_, err = source.Query(t.Context(), QueryOptions{Views: there, Text: statement, MaxRows: 1000, Columns: func([]string) error { return nil },
		Row: func(values []any) error {
			row := make([]string, len(values))
			for i, v := range values {
				row[i] = fmt.Sprint(v)
			}
			rows = append(rows, row)
			return nil
		}})
	return rows, err
}

// both queries in both ways, whose answers must be equal except for the notation of values.
func (s viewed) both(t *testing.T, statement string, there ...views.View) [][]string {
	t.Helper()
	asked, err := s.query(t, statement, there...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	s.compare(t, statement, s.native(t, statement), asked)
	return asked
}

// bothButAge is both for all columns of a view but the fourth: the age of a row differs between the answers.
func (s viewed) bothButAge(t *testing.T, view string, there ...views.View) [][]string {
	t.Helper()
	statement := fmt.Sprintf(`SELECT * FROM "%s"`, view)
	asked, err := s.query(t, statement, there...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	native := s.native(t, statement)
	for _, rows := range [][][]string{asked, native} {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 3, 4)
		}
	}
	s.compare(t, statement, native, asked)
	return asked
}

func (viewed) compare(t *testing.T, statement string, native, asked [][]string) {
	t.Helper()
	if !reflect.DeepEqual(canonical(native), canonical(asked)) {
		t.Errorf("%s:\n%q in the database, and\n%q by rowlock sql", statement, native, asked)
	}
}

// canonical writes booleans as SQLite does, and JSON in one form.
func canonical(rows [][]string) [][]string {
	numbers := map[string]string{"true": "1", "false": "0"}
	out := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			cell = cmp.Or(numbers[cell], cell)
			var v any
			if json.Unmarshal([]byte(cell), &v) == nil {
				if text, err := json.Marshal(v); err == nil {
					cell = string(text)
				}
			}
			out[i] = append(out[i], cell)
		}
	}
	return out
}

var widgetsView = views.View{Name: "widgets.example.com", Resource: "widgets.example.com", Columns: []views.Column{
	{Name: "n", Kind: views.Number, Path: views.Members("spec", "n")}, {Name: "on", Kind: views.Bool, Path: views.Members("spec", "on")},
	{Name: "first", Kind: views.Text, Path: views.Path{{Member: "spec"}, {Member: "a.b"}, {Index: 0}}},
	{Name: "ready", Kind: views.Find, Path: views.Members("status", "conditions"), Member: "type", Value: "it's", Other: views.Members("status")},
	{Name: "names", Kind: views.Join, Path: views.Members("spec", "list"), Other: views.Members("name")},
	{Name: "many", Kind: views.Size, Path: views.Members("spec", "list"), Other: views.Members("spec")},
	{Name: "ratio", Kind: views.Ratio, Path: views.Members("status", "have"), Other: views.Members("spec", "n")},
	{Name: "pair", Kind: views.Pair, Path: views.Members("metadata", "name"), Other: views.Members("kind")},
	{Name: "either", Kind: views.Text, Path: views.Members("spec", "n"), Other: views.Members("metadata", "name")}, {Name: "count", Kind: views.Count, Path: views.Members("status", "have")}, {Name: "any", Kind: views.JSON, Path: views.Members("spec", "list")}}}

// Views return the values at their columns' paths, for objects of any form, and the same in the database and in rowlock sql.
func TestViews(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		s.put(t, "widgets.example.com", "a", "whole", `,"labels":{"l":"1"},"ownerReferences":[{"kind":"Other","name":"o","uid":"u-o"},{"apiVersion":"v1","kind":"Boss","name":"b","uid":"u-b","controller":true}]},"kind":"Widget",
			"spec":{"n":3,"on":true,"a.b":["x","y"],"list":[{"name":"p"},{"name":"q"}]},"status":{"have":2,"conditions":["odd",{"type":"no","status":"0"},{"type":"it's","status":"True"}]}}`)
		s.put(t, "widgets.example.com", "a", "odd", `},"spec":{"n":"three","on":"yes","a.b":7,"list":{"k":1}},"status":[]}`)
		s.put(t, "widgets.example.com", "a", "null", `},"spec":{"n":null,"on":null,"a.b":null,"list":null},"status":{"have":null}}`)
		s.put(t, "widgets.example.com", "b", "bare", `}}`)
		s.put(t, "widgets.example.com", "b", "zero", `,"annotations":{"z":"\u0000"}}}`)
		s.put(t, "gadgets.example.com", "b", "other", `,"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Widget","name":"whole","uid":"u-whole"}]}}`)
		s.put(t, "authorities.rowlock.internal", "", "ca", `},"spec":"top secret"}`)
		s.put(t, "pods", "a", "p", `},"spec":{"nodeName":"n1","initContainers":[{"name":"i","image":"busybox"}],"containers":[{"name":"c","image":"nginx:1"}]}}`)
		pods := views.OfBuiltin("pods")
		s.keep(t, widgetsView, pods)
		const all = `SELECT namespace, name, n, "on", "first", ready, names, many, ratio, pair, either, count, "any", created, age > 0, labels, owner, owner_uid, uid FROM "widgets.example.com" ORDER BY namespace, name`
		rows := s.both(t, all, widgetsView, pods)
		if got := fmt.Sprint(rows); len(rows) != 5 ||
			!strings.Contains(got, `[a whole 3 1 x True p,q 6 2/3 whole/Widget 3 2 [{"name":"p"},{"name":"q"}] 2023-11-14T22:13:20Z 1 {"l":"1"} Boss/b u-b u-whole]`) ||
			!strings.Contains(got, `[a null <nil> <nil> <nil> <nil> <nil> 4 0/0 <nil> null 0 `) || !strings.Contains(got, `[a odd <nil> <nil> <nil> <nil>`) {
			t.Errorf("widgets are %s", got)
		}
		for _, statement := range []string{
			`SELECT resource, namespace, name, encrypted, kind, created, owner, uid, resource_version FROM all_objects ORDER BY resource, name`,
			`SELECT resource, name, owner_kind, owner_name, owner_uid, controller FROM all_owners ORDER BY resource, name, owner_uid`,
			`SELECT namespace, pod, node, list, container, image FROM pod_images ORDER BY image`,
			`SELECT revision, at, op, resource, namespace, name, by_user FROM all_changes ORDER BY revision`,
			`SELECT name, node, ip FROM pods WHERE namespace = 'a'`, `SELECT sum(bytes) FROM all_objects`,
			`SELECT w.name, o.name FROM "widgets.example.com" w JOIN all_owners o ON o.owner_uid = w.uid`,
		} {
			rows := s.both(t, statement, widgetsView, pods)
			if len(rows) == 0 || strings.Contains(fmt.Sprint(rows), "internal") {
				t.Errorf("%s: %q", statement, rows)
			}
		}
		if rows := s.both(t, "SELECT count(*) FROM all_changes", widgetsView); rows[0][0] != "7" {
			t.Errorf("%v changes", rows)
		}
	})
}

// The views in a SQLite file work with a client's SQLite, which may be years older than the server's.
func TestViewsForOldClients(t *testing.T) {
	old := []string{"cast", "coalesce", "count", "group_concat", "instr", "json_array_length", "json_each", "json_remove", "json_type", "json_valid", "length", "lower", "max", "min",
		"nullif", "row_number", "strftime", "substr", "sum", "typeof", "unixepoch"}
	function := regexp.MustCompile(`(\w+)\(`)
	for _, v := range defineViews(inFile, append(computedViews(), widgetsView, views.OfBuiltin("secrets"))) {
		for _, found := range function.FindAllStringSubmatch(v.query, -1) {
			if !slices.ContainsFunc(old, func(name string) bool { return strings.EqualFold(name, found[1]) }) {
				t.Errorf("%s has the function %s, which SQLite 3.38 may not have", v.name, found[1])
			}
		}
		// Before version 3.46, the stack of SQLite's parser has 100 entries, and a file with a view that needs more cannot be read at all. A view with
		// 16 of these levels had too many in SQLite 3.40; one with 12 has 10 entries to spare.
		depth, most := 0, 0
		for _, token := range regexp.MustCompile(`[()]|\b(CASE|END)\b`).FindAllString(v.query, -1) {
			if token == "(" || token == "CASE" {
				depth++
			} else {
				depth--
			}
			most = max(most, depth)
		}
		if depth != 0 || most > 12 {
			t.Errorf("%s has %d levels, which may be too many for SQLite 3.38", v.name, most)
		}
	}
}

// The views are brought up to date while objects are written, and objects that belong to others stay.
func TestViewsComeAndGo(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		names := func() (names []string) {
			statement := "SELECT name FROM sqlite_schema WHERE type = 'view' AND name <> '" + objectsView + "' ORDER BY name"
			if isPostgres(s.options.URL) {
				statement = "SELECT relname FROM pg_class WHERE relnamespace = '\"" + s.options.Schema + "_views\"'::regnamespace ORDER BY relname"
			}
			for _, row := range s.native(t, statement) {
				names = append(names, row[0])
			}
			return names
		}
		want := func(what string, wanted ...string) {
			t.Helper()
			if got := names(); !slices.Equal(got, wanted) {
				t.Errorf("%s: there are %q, want %q", what, got, wanted)
			}
		}
		pods, written := views.OfBuiltin("pods"), 0
		write := func() {
			s.put(t, "widgets.example.com", "a", fmt.Sprint("w", written), `},"spec":{"n":1}}`)
			written++
		}
		write()
		s.keep(t, pods)
		write()
		want("one", "all_changes", "all_objects", "all_owners", "pod_images", "pods")
		s.keep(t, pods, widgetsView)
		write()
		want("another", "all_changes", "all_objects", "all_owners", "pod_images", "pods", "widgets.example.com")
		other := widgetsView
		other.Columns = []views.Column{{Name: "m", Kind: views.Number, Path: views.Members("spec", "n")}}
		s.keep(t, pods, other)
		write()
		if rows := s.both(t, `SELECT m FROM "widgets.example.com"`, other); len(rows) != 4 || rows[0][0] != "1" {
			t.Errorf("with other columns: %q", rows)
		}
		theirs := `CREATE VIEW "theirs.example.com" AS SELECT m FROM "widgets.example.com"`
		if _, err := sqltest.Ask(t.Context(), s.options.URL, s.options.Schema, theirs); err != nil {
			t.Fatal(err)
		}
		theirView := views.View{Name: "theirs.example.com", Resource: "theirs.example.com"}
		s.keep(t, pods, other, theirView)
		if rows := s.native(t, `SELECT * FROM "theirs.example.com"`); len(rows) != 4 {
			t.Errorf("theirs became %q", rows)
		}
		if left, err := s.KeepViews(t.Context(), []views.View{pods, widgetsView}); err != nil || len(left) > 1 { // in Postgres, their view depends on it
			t.Errorf("%v, %v", left, err)
		}
		write()
		s.native(t, `SELECT name FROM "widgets.example.com"`)
		s.native(t, `DROP VIEW "theirs.example.com"`)
		s.keep(t, pods, widgetsView)
		s.native(t, `SELECT n FROM "widgets.example.com"`)
		if source, err := OpenSource(t.Context(), s.options); err != nil {
			t.Error(err)
		} else {
			result, err := source.Verify(t.Context(), VerifyOptions{Found: func(f Finding) { t.Errorf("%s: %s", f.Where, f.What) }})
			if err != nil || result.Objects != written {
				t.Errorf("%+v, %v", result, err)
			}
			source.Close()
		}
		s.keep(t)
		want("none")
		s.keep(t)
	})
}

// No view contains the values of a Secret's data.
func TestViewsHaveNoSecrets(t *testing.T) {
	onViewed(t, nil, func(t *testing.T, s viewed) {
		s.put(t, "secrets", "a", "s", `,"annotations":{"`+views.LastApplied+`":"hidden","kept":"yes"}},"type":"Opaque","data":{"k":"hidden","l":"hidden"},"stringData":{"m":"hidden"}}`)
		s.put(t, "tokens.rowlock.internal", "", "s", `},"spec":"hidden"}`)
		view := views.OfBuiltin("secrets")
		s.keep(t, view)
		if rows := s.both(t, "SELECT name, type, data, annotations FROM secrets", view); fmt.Sprint(rows) != `[[s Opaque 2 {"kept":"yes"}]]` {
			t.Errorf("Secrets are %q", rows)
		}
		for _, statement := range []string{"SELECT * FROM secrets", "SELECT * FROM all_objects", "SELECT * FROM all_changes"} {
			if rows := s.native(t, statement); strings.Contains(fmt.Sprint(rows), "hidden") {
				t.Errorf("%s: %q", statement, rows)
			}
		}
		for _, statement := range []string{"SELECT * FROM secrets", "SELECT * FROM all_objects", "SELECT * FROM all_changes", "SELECT * FROM objects",
			"SELECT * FROM changes", "SELECT sql FROM sqlite_schema", "SELECT * FROM meta", "SELECT * FROM main.objects WHERE resource LIKE '%internal'"} {
			rows, err := s.query(t, statement, view)
			if strings.Contains(fmt.Sprint(rows), "hidden") {
				t.Errorf("%s: %q, %v", statement, rows, err)
			}
		}
	})
}

// Encrypted rows show their names in the database, and are decrypted for queries with the keys.
func TestViewsOfEncrypted(t *testing.T) {
	with := transformers(t, "widgets.example.com", "aesgcm: {keys: ["+keyOf("a")+"]}")
	onViewed(t, with, func(t *testing.T, s viewed) {
		s.put(t, "widgets.example.com", "a", "w", `},"spec":{"n":3}}`)
		s.keep(t, widgetsView)
		const statement = `SELECT name, n, many FROM "widgets.example.com"`
		if rows := s.native(t, statement); fmt.Sprint(rows) != "[[w <nil> <nil>]]" {
			t.Errorf("in the database: %q", rows)
		}
		if rows, err := s.query(t, statement, widgetsView); err != nil || fmt.Sprint(rows) != "[[w 3 1]]" {
			t.Errorf("with the keys: %q, %v", rows, err)
		}
		s.options.Transformers = nil
		if rows, err := s.query(t, statement, widgetsView); err != nil || fmt.Sprint(rows) != "[[w <nil> <nil>]]" {
			t.Errorf("without: %q, %v", rows, err)
		}
		if rows := s.both(t, "SELECT encrypted FROM all_objects", widgetsView); fmt.Sprint(rows) != "[[1]]" {
			t.Errorf("encrypted: %q", rows)
		}
	})
}
