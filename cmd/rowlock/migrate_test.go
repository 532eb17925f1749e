package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/sqlstore"
)

// A store is migrated while its server runs. The server refuses writes from then on, and a server of the target with the same data
// directory continues with the same state: clients keep their credentials, and informers their objects.
func TestMigrate(t *testing.T) {
	c := newPostgres(t)
	for _, m := range []struct {
		name     string
		from, to func(*testing.T, string) []string // URL and schema
	}{
		{"SQLiteToPostgres", sqlitePlace, func(*testing.T, string) []string { return []string{c.URL(), "moved"} }},
		{"PostgresToSQLite", func(*testing.T, string) []string { return []string{c.URL(), "source"} }, sqlitePlace},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			migrateWhileItRuns(t, m.from(t, "from.db"), m.to(t, "to.db"))
		})
	}
}

func sqlitePlace(t *testing.T, name string) []string {
	return []string{"sqlite://" + filepath.Join(t.TempDir(), name), ""}
}

func migrateWhileItRuns(t *testing.T, from, to []string) {
	place := func(database []string) storePlace {
		return storePlace{"", []string{"--datastore", database[0], "--schema", database[1]}}
	}
	first, second := place(from), place(to)
	first.dir = filepath.Join(t.TempDir(), "data")
	second.dir = first.dir
	address := freeAddress(t)
	p := start(t, first.args("--listen", address)...)
	client := p.client(t)
	send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v2")+`}}`)
	send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`)
	configMaps := client.CoreV1().ConfigMaps("default")
	for _, name := range []string{"changed", "kept"} {
		if _, err := configMaps.Create(t.Context(), newConfigMap(name, "before"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	seen := follow(t, client)
	seen.until(t, "changed=before kept=before")
	before := everything(t, client)

	args := []string{"migrate", "--hold", "1m", "--from", from[0], "--from-schema", from[1], "--to", to[0], "--to-schema", to[1]}
	// A dry run counts the rows, and leaves nothing behind: the migration finds an empty database.
	if said := runs(t, append(args, "--dry-run")...); !strings.Contains(said, "1 widgets.example.com\n") || !strings.Contains(said, " objects\n") {
		t.Errorf("a dry run said:\n%s", said)
	}
	if code, _, stderr := command(t, "migrate", "--dry-run", "--from", from[0], "--from-schema", from[1], "--to", from[0], "--to-schema", from[1]); code == 0 || !strings.Contains(stderr, "to where it is") {
		t.Errorf("a dry run to where the store is: exit code %d, %s", code, stderr)
	}
	if said := runs(t, args...); !strings.Contains(said, "The store has moved, at revision") {
		t.Errorf("rowlock migrate said:\n%s", said)
	}
	err := client.CoreV1().RESTClient().Put().Namespace("default").Resource("configmaps").Name("changed").Body(newConfigMap("changed", "lost")).
		MaxRetries(0).Do(t.Context()).Error()
	if said := err.Error(); strings.Contains(said, "SQL logic") || strings.Contains(said, "SQLSTATE") {
		t.Errorf("a client is told what the database says: %s", said)
	}
	if seconds, again := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !again || seconds == 0 || !strings.HasPrefix(err.Error(), "the store has moved to ") {
		t.Errorf("a write after the switch: %v", err)
	}
	p.end()
	if code, _, stderr := command(t, append([]string{"serve"}, first.args("--listen", address)...)...); code == 0 || !strings.Contains(stderr, "the store has moved to ") {
		t.Errorf("a server of the source: exit code %d, %s", code, stderr)
	}

	file := filepath.Join(t.TempDir(), "backup")
	if code, _, stderr := command(t, append([]string{"backup"}, first.args(file)...)...); code != 0 || !strings.Contains(stderr, "before it moved to ") {
		t.Errorf("a backup of the source: exit code %d, %s", code, stderr)
	}
	if out := runs(t, append([]string{"verify"}, first.args()...)...); !strings.Contains(out, "The store has moved to ") || !strings.Contains(out, "nothing is wrong") {
		t.Errorf("rowlock verify of the source: %s", out)
	}

	p = start(t, second.args("--listen", address)...)
	if diff := cmp.Diff(before, everything(t, p.client(t))); diff != "" {
		t.Errorf("-before, +moved:\n%s", diff)
	}
	if _, err := configMaps.Update(t.Context(), newConfigMap("changed", "after"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	seen.until(t, "changed=after kept=before")
	p.end()
	runs(t, append([]string{"verify"}, second.args()...)...)
}

// The progress of a copy is told when a table is done, and after every 20,000 rows.
func TestMigrateTellsProgress(t *testing.T) {
	var out strings.Builder
	m := &moveTeller{out: &out}
	for _, p := range []sqlstore.MoveProgress{
		{Table: "objects", Of: 45000, Revision: 7}, {Table: "objects", Rows: 500, Of: 45000, Revision: 7}, {Table: "objects", Rows: 20000, Of: 45000, Different: 20000, Revision: 7},
		{Table: "objects", Rows: 20500, Of: 45000, Revision: 7}, {Table: "objects", Rows: 40500, Of: 45000, Different: 40500, Revision: 7},
		{Table: "objects", Rows: 45000, Of: 45000, Different: 45000, Revision: 7}, {Table: "changes", Revision: 8}, {Table: "changes", Rows: 1, Of: 1, Different: 1, Revision: 9},
	} {
		m.tell(p)
	}
	const want = "revision 7, objects: 20000 of 45000 rows, 20000 copied\nrevision 7, objects: 40500 of 45000 rows, 40500 copied\n" +
		"revision 7, objects: 45000 of 45000 rows, 45000 copied\nrevision 9, changes: 1 of 1 row, 1 copied\n"
	if out.String() != want {
		t.Errorf("it tells\n%swant\n%s", out.String(), want)
	}
}

// For a source that is not a store of Rowlock, the error names the command that reads it.
func TestMigrateOfEtcd(t *testing.T) {
	if code, _, stderr := command(t, "migrate", "--from", "http://127.0.0.1:2379", "--to", "sqlite:///nowhere/rowlock.db"); code != exitUsage || !strings.Contains(stderr, "rowlock import") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
