package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
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

// pragma sets something on the connection that writes.
func (h *sqliteHarness) pragma(t *testing.T, statement string) {
	t.Helper()
	h.onWriter(t, func() error {
		_, err := h.driver().writer.ExecContext(context.Background(), statement)
		return err
	})
}

// A second process on the same file is refused with a clear error, by whatever name it calls the file.
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

// A path may contain what means something in a URL.
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
	set(9999, false)
	if _, err := Open(context.Background(), h.options()); !errors.As(err, new(*migrations.NewerError)) {
		t.Errorf("of a newer schema: %v", err)
	}
	set(1, true)
	if _, err := Open(context.Background(), h.options()); !errors.As(err, new(*migrations.DirtyError)) {
		t.Errorf("of a dirty schema: %v", err)
	}
	set(1, false)
	h.open(t)
}

// The file holds secrets: nobody else may read it.
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

// No statement reads a table from end to end, but the one that loads it.
func TestQueryPlans(t *testing.T) {
	h := newSQLiteHarness(t)
	for name, statement := range map[string]string{
		"upsertObject": upsertObjectSQL, "deleteObject": deleteObjectSQL, "insertChange": insertChangeSQL,
		"selectHistory": selectHistorySQL, "selectOldest": selectOldestSQL, "deleteChanges": deleteChangesSQL,
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
			if strings.HasPrefix(detail, "SCAN") && !strings.Contains(detail, "INDEX") && detail != "SCAN meta" && detail != "SCAN c" {
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

// When the disk is full, writes fail as unavailable and leave nothing, reads go on, readiness says why; when there is
// room again, all recovers.
func TestDiskFull(t *testing.T) {
	h := newSQLiteHarness(t)
	ctx := context.Background()
	made := mustCommit(t, h.store, createMap(t, "first"))[0]
	w, err := h.store.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: made.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h.pragma(t, "PRAGMA max_page_count = 1") // means: no more than there are
	failed := 0
	for i := range 100 {
		if _, err := h.store.Commit(ctx, createMap(t, strconv.Itoa(i))); err != nil {
			if !errors.Is(err, resources.ErrUnavailable) {
				t.Fatalf("got %v, want ErrUnavailable", err)
			}
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("the disk never was full")
	}
	if err := h.store.Ready(ctx); err != nil {
		// Ready tries a commit of nothing, for which there may be room; if not, it says so.
		if !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("ready: %v", err)
		}
	}
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

// A commit that fails in an unknown way is answered so, and what became of it is looked up before the next one.
func TestUnknownOutcome(t *testing.T) {
	h := newSQLiteHarness(t)
	ctx := context.Background()
	made := mustCommit(t, h.store, createMap(t, "first"))[0]
	// A violated deferred constraint makes COMMIT itself fail.
	h.pragma(t, `PRAGMA foreign_keys = on;
		CREATE TABLE parent (id INTEGER PRIMARY KEY);
		CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
		CREATE TRIGGER fail AFTER INSERT ON changes BEGIN INSERT INTO child VALUES (1); END;`)
	if _, err := h.store.Commit(ctx, createMap(t, "second")); !errors.Is(err, resources.ErrUnknownOutcome) {
		t.Fatalf("got %v, want ErrUnknownOutcome", err)
	}
	if err := h.store.Ready(ctx); err != nil {
		t.Errorf("ready, with a database that works: %v", err)
	}
	h.pragma(t, "DROP TRIGGER fail")
	if next := mustCommit(t, h.store, createMap(t, "third"))[0]; next.Revision != made.Revision+1 {
		t.Errorf("revision %d, want %d: the failed commit left nothing", next.Revision, made.Revision+1)
	}

	// The other way: the commit took effect, its answer was lost.
	var lost *batch
	h.onWriter(t, func() error {
		p := &plan{state: h.store.tree, revision: h.store.revisions.current.Load()}
		if _, err := p.add([]resources.Write{createMap(t, "lost")}, h.clock.Now()); err != nil {
			return err
		}
		lost = &batch{at: h.clock.Now().UnixMilli(), revision: p.revision, changes: p.changes}
		h.store.doubtful = lost
		return h.driver().commit(lost)
	})
	next := mustCommit(t, h.store, createMap(t, "fourth"))[0]
	if next.Revision != lost.revision+1 {
		t.Errorf("revision %d, want %d", next.Revision, lost.revision+1)
	}
	if _, err := h.store.Get(ctx, configMap("default", "lost"), resources.At{}); err != nil {
		t.Errorf("what was committed is not visible: %v", err)
	}
}

// A second writer, which the lock did not keep out, is found out before the store does harm.
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

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// History is bounded, and the file gives space back.
func TestSpaceIsGivenBack(t *testing.T) {
	h := newSQLiteHarness(t)
	const objects = 4000
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := worker; i < objects; i += 16 {
				name := strconv.Itoa(i)
				o, err := h.store.Commit(context.Background(), createMap(t, name))
				if err == nil {
					_, err = h.store.Commit(context.Background(), resources.Write{Op: resources.Delete, Key: o[0].Key, From: o[0].Revision})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.onWriter(t, h.store.db.checkpoint)
	before := fileSize(t, h.path)
	if before < objects*4000 {
		t.Fatalf("the file has only %d bytes", before)
	}
	h.clock.Step(2 * storetest.HistoryAge)
	h.prune(t)
	if after := fileSize(t, h.path); after > before/8 {
		t.Errorf("the file had %d bytes and has %d", before, after)
	}
	if n := h.store.historyBytes.Load(); n != 0 {
		t.Errorf("history has %d bytes and nothing in it", n)
	}
	if wal := fileSize(t, h.path+"-wal"); wal > 1<<20 {
		t.Errorf("the write-ahead log has %d bytes", wal)
	}
}

// History is bounded by size, before its age.
func TestHistorySize(t *testing.T) {
	h := newSQLiteHarness(t)
	h.close(t)
	o := h.options()
	o.HistorySize = 100 << 10
	var err error
	if h.store, err = Open(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		mustCommit(t, h.store, createMap(t, strconv.Itoa(i)))
	}
	h.prune(t)
	if n := h.store.historyBytes.Load(); n > o.HistorySize || n < o.HistorySize/2 {
		t.Errorf("history has %d bytes, its bound is %d", n, o.HistorySize)
	}
	var want int64
	const sum = "SELECT sum(length(data) + coalesce(length(prev_data), 0)) FROM changes"
	if err := h.store.db.reads.QueryRow(sum).Scan(&want); err != nil {
		t.Fatal(err)
	}
	if n := h.store.historyBytes.Load(); n != want {
		t.Errorf("history is counted as %d bytes and has %d", n, want)
	}
}

// The write-ahead log stays bounded while watchers read history.
func TestLogStaysBounded(t *testing.T) {
	h := newSQLiteHarness(t)
	const bound = 2 << 20
	h.pragma(t, "PRAGMA wal_autocheckpoint = 256")
	h.onWriter(t, func() error {
		h.driver().trimmer = &walTrimmer{path: h.path + "-wal", max: bound, patience: time.Minute}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	start := h.store.revisions.current.Load()
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil { // reads all of history, again and again
				w, err := h.store.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
				if err != nil {
					return
				}
				for {
					if events, _, err := w.Next(ctx, 1000); err != nil || len(events) == 0 {
						break
					}
				}
				w.Close()
			}
		})
	}
	const objects = 2000
	for worker := range 64 {
		writers.Go(func() {
			for i := worker; i < objects; i += 64 {
				if _, err := h.store.Commit(context.Background(), createMap(t, strconv.Itoa(i))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	cancel()
	readers.Wait()
	if wal := fileSize(t, h.path+"-wal"); wal > 2*bound+batchBytes*2 {
		t.Errorf("the write-ahead log has %d bytes", wal)
	}
}

// Nothing runs when idle: when history is empty and no object will expire, there is no timer.
func TestIdleStoreHasNoTimer(t *testing.T) {
	h := newSQLiteHarness(t)
	made := mustCommit(t, h.store, createMap(t, "a"), createMap(t, "b"))
	past := resources.At{Match: resources.Exact, Revision: made[0].Revision}
	if _, err := h.store.Snapshot(context.Background(), "configmaps", past); err != nil {
		t.Fatal(err)
	}
	done := func() bool {
		return h.store.floor.Load() == made[1].Revision && h.store.pasts.len() == 0 &&
			h.store.janitor.idle() && !h.clock.HasWaiters()
	}
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("history begins at %d, %d past states are kept", h.store.floor.Load(), h.store.pasts.len())
		}
		h.clock.Step(time.Second)
	}
}

func (p *pasts) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byKey)
}

// idle reports whether nothing is due, ever.
func (j *janitor) idle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.due == [duties]time.Time{}
}

// What the store keeps of history in memory is bounded, over all types.
func TestLogBudget(t *testing.T) {
	h := newSQLiteHarness(t)
	for i := range 300 {
		w := createMap(t, strconv.Itoa(i))
		w.Key.Resource = []string{"configmaps", "secrets", "pods"}[i%3]
		mustCommit(t, h.store, w)
	}
	h.onWriter(t, func() error { // the budget is the committer's
		if b := &h.store.budget; b.used > b.limit || b.used < b.limit/2 {
			t.Errorf("%d bytes are in memory, the bound is %d", b.used, b.limit)
		}
		kept := 0
		for _, resource := range []string{"configmaps", "secrets", "pods"} {
			c := h.store.collection(resource)
			kept += len(c.log)
			for i, e := range c.log {
				if e.Revision <= c.logStart || (i > 0 && e.Revision <= c.log[i-1].Revision) {
					t.Errorf("%s: event %d is out of place", resource, e.Revision)
				}
			}
		}
		if kept != len(h.store.budget.queue) {
			t.Errorf("the logs hold %d events, the budget counts %d", kept, len(h.store.budget.queue))
		}
		return nil
	})
}

// Data that a database might refuse fails its own request, not those that wait beside it.
func TestOddDataIsRefused(t *testing.T) {
	h := newSQLiteHarness(t)
	for _, odd := range []string{"\x00", "\xff"} {
		w := createMap(t, "odd")
		w.Draft.Data = append(w.Draft.Data[:len(w.Draft.Data):len(w.Draft.Data)], odd...)
		if _, err := h.store.Commit(context.Background(), w); err == nil || errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("%q: %v", odd, err)
		}
	}
}
