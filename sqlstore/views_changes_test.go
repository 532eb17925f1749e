package sqlstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
	"github.com/rowlock/rowlock/resources/views"
)

// The view of all changes has those that the log has no more from the object history, each change once, and with the
// paths that it changed.
func TestViewOfChangesReachesBeforeTheLog(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, clock interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: 24 * time.Hour})
		v := viewed{s, s.options}
		ann := sentBy(t, "ann", "", "patch", "kubectl")
		commit := func(ctx context.Context, w resources.Write) *resources.Object {
			t.Helper()
			o, err := s.Commit(ctx, w)
			if err != nil {
				t.Fatal(err)
			}
			return o[0]
		}
		o := commit(ann, object(t, "widgets.example.com", "shop", "a", "u1", `"spec":{"n":1}`))
		o = commit(ann, update(object(t, "widgets.example.com", "shop", "a", "u1", `"spec":{"n":2}`), o))
		commit(ann, object(t, "events", "shop", "e", "u2", `"x":1`))
		commit(ann, object(t, "tokens.rowlock.internal", "", "i", "u4", `"x":1`))
		var p *resources.Object
		for i := range 2 * queryPage {
			p = commit(ann, object(t, "pods", "shop", fmt.Sprint("p", i), fmt.Sprint("u-p", i), `"x":1`))
		}
		historyOf(t, s, resources.RevisionQuery{})
		clock.Step(2 * storetest.HistoryAge)
		if _, err := s.janitor.prune(); err != nil {
			t.Fatal(err)
		}
		floor := s.floor.Load()
		o = commit(ann, update(object(t, "widgets.example.com", "shop", "a", "u1", `"spec":{"n":3},"a\"b":1`), o))
		commit(ann, update(object(t, "pods", "shop", p.Key.Name, "u", `"zero\u0000":1`), p))
		historyOf(t, s, resources.RevisionQuery{})
		commit(ann, remove(o)) // is only in the log
		v.keep(t, widgetsView, views.OfBuiltin("pods"))
		const statement = `SELECT revision, op, resource, namespace, name, by_user, verb, fields FROM all_changes WHERE resource <> 'pods' ORDER BY revision`
		want := fmt.Sprintf(`[[%d create widgets.example.com shop a ann patch []] [%d update widgets.example.com shop a ann patch ["spec.n"]] `+
			`[%d update widgets.example.com shop a ann patch ["spec.n","a\"b"]] [%d delete widgets.example.com shop a ann patch <nil>]]`,
			floor-2*queryPage-3, floor-2*queryPage-2, floor+1, floor+3)
		if got := fmt.Sprint(v.both(t, statement, widgetsView)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if rows := v.both(t, "SELECT count(*), count(DISTINCT revision), count(fields) FROM all_changes", widgetsView); fmt.Sprint(rows) != fmt.Sprintf("[[%d %[1]d %d]]", 2*queryPage+5, 2*queryPage+4) {
			t.Errorf("there are %v changes, of so many revisions, with so many paths", rows)
		}
	})
}

// Queries read tables of earlier versions, whose changes have no paths, or no authors either.
func TestViewOfChangesOfEarlierVersions(t *testing.T) {
	for kind, options := range map[string]func(*testing.T) Options{"sqlite": sqliteOptions, "postgres": postgresOptions} {
		t.Run(kind, func(t *testing.T) {
			s := viewed{options: options(t)}
			s.Store = openStore(t, s.options)
			if _, err := s.Commit(sentBy(t, "ann", "", "patch", "kubectl"), createMap(t, "a")); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			steps, err := filepath.Glob("../migrations/" + kind + "/*.down.sql")
			if err != nil || len(steps) < 6 {
				t.Fatalf("%q, %v", steps, err)
			}
			for version := len(steps); version >= 2; version-- {
				step := steps[version-1]
				if rows, err := s.query(t, "SELECT name, by_user, fields FROM all_changes", widgetsView); err != nil || fmt.Sprint(rows) != "[[a ann <nil>]]" {
					t.Errorf("before %s: %q, %v", step, rows, err)
				}
				down, err := os.ReadFile(step)
				if err != nil {
					t.Fatal(err)
				}
				for statement := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(string(down)), ";"), ";\n") {
					s.native(t, statement)
				}
				s.native(t, fmt.Sprintf("UPDATE schema_migrations SET version = %d", version-1))
				if strings.Contains(step, "_author.") {
					break
				}
			}
			if rows, err := s.query(t, "SELECT name, by_user, fields FROM all_changes", widgetsView); err != nil || fmt.Sprint(rows) != "[[a <nil> <nil>]]" {
				t.Errorf("without authors: %q, %v", rows, err)
			}
		})
	}
}
