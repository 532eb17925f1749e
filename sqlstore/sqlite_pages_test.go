package sqlstore

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// A new file has small pages, and gives back free ones; a file with other pages keeps their size. The write-ahead log
// is moved into either at the same size.
func TestPages(t *testing.T) {
	made := func(t *testing.T, path string) {
		old, err := sql.Open("sqlite", "file:"+path+"?_auto_vacuum=incremental&_journal_mode=wal")
		if err == nil {
			_, err = old.Exec("CREATE TABLE t (n INTEGER); DROP TABLE t")
		}
		if err == nil {
			err = old.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		page int
	}{"new": {func(*testing.T, string) {}, pageSize}, "of 4 KiB": {made, 4096}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rowlock.db")
			c.make(t, path)
			h := &sqliteHarness{path: path, clock: clocktesting.NewFakeClock(time.Now())}
			h.open(t)
			defer h.close(t)
			h.givesBack(t, c.page)
			h.onWriter(t, func() error {
				for pragma, want := range map[string]int{"page_size": c.page, "auto_vacuum": 2, "wal_autocheckpoint": walCheckpoint / c.page} {
					var got int
					if err := h.driver().writer.QueryRowContext(context.Background(), "PRAGMA "+pragma).Scan(&got); err != nil {
						return err
					}
					if got != want {
						t.Errorf("%s is %d and should be %d", pragma, got, want)
					}
				}
				return nil
			})
		})
	}
}

// givesBack checks that a step gives back as many bytes, whatever the page size.
func (h *sqliteHarness) givesBack(t *testing.T, page int) {
	t.Helper()
	h.comeAndGo(t, 1000)
	h.onWriter(t, func() error {
		_, err := h.store.db.prune(h.store.revisions.current.Load())
		return err
	})
	_, before := h.pages(t)
	h.onWriter(t, func() error {
		_, err := h.store.db.vacuum(vacuumStep)
		return err
	})
	_, after := h.pages(t)
	if gave := (before - after) * int64(page); gave < vacuumStep || gave > vacuumStep+vacuumStep/16 {
		t.Errorf("a step has given back %d bytes of %d", gave, vacuumStep)
	}
}
