package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/resources"
)

func mustCommit(t *testing.T, s *Store, writes ...resources.Write) []*resources.Object {
	t.Helper()
	objects, err := s.Commit(context.Background(), writes...)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func createMap(t testing.TB, name string) resources.Write {
	return resources.Write{Op: resources.Create, Key: configMap("default", name), Draft: draft(t, "default", name)}
}

// onWriter runs f on the goroutine of the committer.
func (h *sqliteHarness) onWriter(t *testing.T, f func() error) {
	t.Helper()
	if ran, err := h.store.janitor.task(f); !ran || err != nil {
		t.Fatalf("ran: %v, %v", ran, err)
	}
}

func (h *sqliteHarness) driver() *sqliteDriver { return h.store.db.driver.(*sqliteDriver) }

// pragma runs a statement on the connection that writes.
func (h *sqliteHarness) pragma(t *testing.T, statement string) {
	t.Helper()
	h.onWriter(t, func() error {
		_, err := h.driver().writer.ExecContext(context.Background(), statement)
		return err
	})
}

// A second process on the same file is refused with a clear error, whatever path it uses.
func TestSecondOpenIsRefused(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "a"))
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(h.path, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{h.path, link} {
		o := h.options()
		o.URL = "sqlite://" + path
		s, err := Open(context.Background(), o)
		if err == nil {
			s.Close()
			t.Fatalf("%s was opened twice", path)
		}
		for _, word := range []string{h.path, "in use", strconv.Itoa(os.Getpid())} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the error does not say %q: %v", word, err)
			}
		}
	}
	mustCommit(t, h.store, createMap(t, "b"))
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"no scheme":       {URL: "/var/lib/x.db"},
		"other scheme":    {URL: "mysql://user:secret@host/db"},
		"empty":           {},
		"synchronous":     {URL: "sqlite://" + file + "2", Synchronous: "fully"},
		"negative":        {URL: "sqlite://" + file + "2", HistoryAge: -1},
		"not a database":  {URL: "sqlite://" + file},
		"not a directory": {URL: "sqlite://" + file + "/x.db"},
	} {
		s, err := Open(context.Background(), o)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the password: %v", name, err)
		}
	}
}

// A path may contain characters with a meaning in a URL.
func TestOddPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "50% of a file?mode=ro#1", "näme.db")
	s, err := Open(context.Background(), Options{URL: "sqlite://" + path})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, createMap(t, "a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is not where it was asked for: %v", err)
	}
}

// A dirty or newer schema is refused; the lock is not kept.
func TestSchemaIsChecked(t *testing.T) {
	h := newSQLiteHarness(t)
	h.close(t)
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	set := func(version int, dirty bool) {
		if _, err := db.Exec("UPDATE schema_migrations SET version = $1, dirty = $2", version, dirty); err != nil {
			t.Fatal(err)
		}
	}
	var newest int
	if err := db.QueryRow("SELECT version FROM schema_migrations").Scan(&newest); err != nil {
		t.Fatal(err)
	}
	set(9999, false)
	if _, err := Open(context.Background(), h.options()); !errors.As(err, new(*migrations.NewerError)) {
		t.Errorf("of a newer schema: %v", err)
	}
	exec := func(statement string) {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	set(newest, true)
	exec("CREATE TABLE theirs (id INTEGER)")
	if _, err := Open(context.Background(), h.options()); !errors.As(err, new(*migrations.DirtyError)) {
		t.Errorf("of a dirty schema that is no known one: %v", err)
	}
	exec("DROP TABLE theirs")
	h.open(t)
}

// The file holds secrets: only its owner may read it.
func TestFilesArePrivate(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "a"))
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(h.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", info.Name(), info.Mode())
		}
	}
}

// No statement scans a whole table, except the one that loads it.
func TestQueryPlans(t *testing.T) {
	h := newSQLiteHarness(t)
	for name, statement := range map[string]string{
		"putCurrent": putCurrentSQL, "deleteCurrent": deleteCurrentSQL, "insertChange": insertChangeSQL,
		"selectHistory": selectHistorySQL, "selectWindow": selectWindowSQL, "sizeOfWindow": sizeOfWindowSQL, "deletePast": deletePastSQL, "forgetPrev": forgetPrevSQL,
		"selectDue": selectDueSQL, "selectNextDue": selectNextDueSQL,
	} {
		args := make([]any, strings.Count(statement, "$"))
		rows, err := h.store.db.reads.Query("EXPLAIN QUERY PLAN "+statement, args...)
		err = eachRow(rows, err)(func(scan func(...any) error) error {
			var id, parent, unused int
			var detail string
			if err := scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			t.Logf("%s: %s", name, detail)
			if strings.HasPrefix(detail, "SCAN") && !strings.Contains(detail, "INDEX") && detail != "SCAN meta" && detail != "SCAN h" {
				t.Errorf("%s: %s", name, detail)
			}
			if strings.Contains(detail, "TEMP B-TREE") {
				t.Errorf("%s: %s", name, detail)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A row's data is the object as JSON, so that a person can query it with ordinary SQL.
func TestRowsCanBeQueried(t *testing.T) {
	h := newSQLiteHarness(t)
	made := mustCommit(t, h.store, createMap(t, "a"), createMap(t, "b"))
	for _, table := range []string{"objects", "changes"} {
		var revision, kind, app string
		if err := h.store.db.reads.QueryRow(`SELECT data->>'$.metadata.resourceVersion', data->>'kind',
			data->>'$.metadata.labels.app' FROM `+table+` WHERE name = 'b'`).Scan(&revision, &kind, &app); err != nil {
			t.Fatal(err)
		}
		if want := resources.FormatRevision(made[1].Revision); revision != want || kind != "ConfigMap" || app != "bench" {
			t.Errorf("%s: revision %s, kind %s, app %s", table, revision, kind, app)
		}
	}
}

// fullDriver is a database that has no room for a commit without changes either.
type fullDriver struct{ driver }

func (fullDriver) touch() error { return unavailable(errNoRoom) }

// When the disk is full, writes fail as unavailable and leave nothing, reads go on, and the store stays ready; when there
// is room again, writes recover.
func TestDiskFull(t *testing.T) {
	h := newSQLiteHarness(t)
	ctx := context.Background()
	made := mustCommit(t, h.store, createMap(t, "first"))[0]
	w, err := h.store.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: made.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h.pragma(t, "PRAGMA max_page_count = 1") // means the present number of pages
	failed := 0
	for i := range 100 {
		if _, err := h.store.Commit(ctx, createMap(t, strconv.Itoa(i))); err != nil {
			if !errors.Is(err, resources.ErrUnavailable) || !errors.Is(err, resources.ErrFull) {
				t.Fatalf("got %v, want ErrUnavailable, and ErrFull", err)
			}
			if strings.Contains(err.Error(), "rollback") {
				t.Errorf("it says more than that: %v", err)
			}
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("the disk never was full")
	}
	if err := h.store.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
	full := fullDriver{h.driver()}
	h.onWriter(t, func() error { h.store.db.driver = full; return nil })
	if err := h.store.probe(ctx); !errors.Is(err, resources.ErrFull) {
		t.Errorf("a commit without changes: %v", err)
	}
	if err := h.store.Ready(ctx); err != nil {
		t.Errorf("ready, without room for a commit without changes: %v", err)
	}
	h.onWriter(t, func() error { h.store.db.driver = full.driver; return nil })
	snap, err := h.store.Snapshot(ctx, "configmaps", resources.At{Match: resources.MostRecent})
	if err != nil || snap.Count("", "") != 101-failed {
		t.Errorf("%d objects, %v; want %d", snap.Count("", ""), err, 101-failed)
	}
	h.pragma(t, "PRAGMA max_page_count = 1000000")
	next := mustCommit(t, h.store, createMap(t, "next"))[0]
	if want := made.Revision + int64(100-failed) + 1; next.Revision != want {
		t.Errorf("revision %d after the failures, want %d", next.Revision, want)
	}
	if err := h.store.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
	events, _, err := w.Next(ctx, 1000)
	if err != nil || len(events) != 101-failed {
		t.Errorf("%d events, %v; want %d", len(events), err, 101-failed)
	}
}

// The outcome of a commit that fails in an unclear way is determined at once, and is the answer.
func TestUnknownOutcome(t *testing.T) {
	h := newSQLiteHarness(t)
	ctx := context.Background()
	made := mustCommit(t, h.store, createMap(t, "first"))[0]
	// A violated deferred constraint makes COMMIT itself fail.
	h.pragma(t, `PRAGMA foreign_keys = on;
		CREATE TABLE parent (id INTEGER PRIMARY KEY);
		CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
		CREATE TRIGGER fail AFTER INSERT ON changes BEGIN INSERT INTO child VALUES (1); END;`)
	if _, err := h.store.Commit(ctx, createMap(t, "second")); !errors.Is(err, resources.ErrUnavailable) || errors.Is(err, resources.ErrUnknownOutcome) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	if err := h.store.Ready(ctx); err != nil {
		t.Errorf("ready, with a database that works: %v", err)
	}
	h.pragma(t, "DROP TRIGGER fail")
	if next := mustCommit(t, h.store, createMap(t, "third"))[0]; next.Revision != made.Revision+1 {
		t.Errorf("revision %d, want %d: the failed commit left nothing", next.Revision, made.Revision+1)
	}

	// The other way: the commit took effect, its answer was lost.
	forgetful := &forgetfulDriver{driver: h.driver()}
	h.onWriter(t, func() error {
		h.store.db.driver = forgetful
		return nil
	})
	lost := mustCommit(t, h.store, createMap(t, "lost"))[0]
	if _, err := h.store.Get(ctx, lost.Key, resources.At{}); err != nil {
		t.Errorf("what was committed is not visible: %v", err)
	}

	// At first the outcome cannot be determined. Then the change becomes visible without another write, and a watch
	// gets it.
	w, err := h.store.Watch(ctx, resources.WatchOptions{Resource: lost.Resource, After: lost.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	forgetful.silent.Store(true)
	if _, err := h.store.Commit(ctx, createMap(t, "late")); !errors.Is(err, resources.ErrUnknownOutcome) {
		t.Fatalf("got %v, want ErrUnknownOutcome", err)
	}
	if _, err := h.store.Commit(ctx, createMap(t, "later")); !errors.Is(err, resources.ErrUnavailable) {
		t.Fatalf("a commit after one whose outcome is unknown: %v, want ErrUnavailable", err)
	}
	forgetful.silent.Store(false)
	h.clock.Step(time.Minute)
	select {
	case <-w.Ready():
	case <-time.After(time.Minute):
		t.Fatal("what became of the commit was not found out")
	}
	events, _, err := w.Next(ctx, 10)
	if err != nil || len(events) != 1 || events[0].Object.Name != "late" {
		t.Errorf("%d events, %v", len(events), err)
	}
	h.onWriter(t, func() error {
		h.store.db.driver = forgetful.driver
		return nil
	})
}

// forgetfulDriver commits, but reports an unknown outcome.
type forgetfulDriver struct {
	driver
	silent atomic.Bool // the database does not answer reads, either
}

func (d *forgetfulDriver) begin(after int64) (transaction, *page, error) {
	tx, page, err := d.driver.begin(after)
	return forgetfulTransaction{tx}, page, err
}

func (d *forgetfulDriver) touch() error {
	if d.silent.Load() {
		return resources.ErrUnavailable
	}
	return d.driver.touch()
}

type forgetfulTransaction struct{ transaction }

func (t forgetfulTransaction) commit(b *batch) error {
	if err := t.transaction.commit(b); err != nil {
		return err
	}
	return resources.ErrUnknownOutcome
}

// A second writer that the lock did not keep out is detected before the store does harm.
func TestForeignWriter(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "a"))
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE meta SET revision = revision + 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.store.Commit(context.Background(), createMap(t, "b")); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

// An object whose key an earlier release accepted, and that would be refused now, can be changed and deleted.
func TestKeyOfEarlierRelease(t *testing.T) {
	h := newSQLiteHarness(t)
	long := strings.Repeat("x", 2*resources.MaxKeyBytes)
	mustCommit(t, h.store, createMap(t, "a"))
	h.onWriter(t, func() error {
		_, err := h.driver().writer.ExecContext(t.Context(), "UPDATE objects SET name = $1", long)
		return err
	})
	h.close(t)
	h.open(t)
	o, err := h.store.Get(t.Context(), configMap("default", long), resources.At{})
	if err != nil {
		t.Fatal(err)
	}
	changed := mustCommit(t, h.store, resources.Write{Op: resources.Update, Key: o.Key, From: o.Revision, Draft: draft(t, "default", long)})[0]
	mustCommit(t, h.store, resources.Write{Op: resources.Delete, Key: o.Key, From: changed.Revision})
}
