package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"strconv"
	"testing"
)

// staleFrames restarts the write-ahead log, and returns how many frames of an older log the file still has.
func staleFrames(t *testing.T, h *sqliteHarness, prefix string) (stale int) {
	t.Helper()
	const header, frameHeader, page, salts = 32, 24, pageSize, 8
	h.pragma(t, "PRAGMA wal_autocheckpoint = 64")
	var first []byte
	for i := range 10_000 {
		mustCommit(t, h.store, createMap(t, prefix+strconv.Itoa(i)))
		log, err := os.ReadFile(h.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		salt := log[16 : 16+salts]
		if first == nil {
			first = salt
		}
		if bytes.Equal(salt, first) {
			continue
		}
		for at := header; at+frameHeader+page <= len(log); at += frameHeader + page {
			if !bytes.Equal(log[at+8:at+8+salts], salt) {
				stale++
			}
		}
		return stale
	}
	t.Fatal("the log was never begun anew")
	return 0
}

// Once Litestream has been detected, a restarted log has no frames of the old one; see litestream.
func TestLogIsCutForLitestream(t *testing.T) {
	h := newSQLiteHarness(t)
	if n := staleFrames(t, h, "alone"); n == 0 {
		t.Error("SQLite cuts the log by itself: nothing has to be done for Litestream")
	}
	other, err := sql.Open("sqlite", sqliteName(h.path, "normal"))
	if err == nil {
		_, err = other.Exec("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	h.onWriter(t, func() error { // the next interval
		h.driver().litestream.looked = h.driver().litestream.looked.Add(-litestreamInterval)
		return h.driver().heedLitestream(context.Background())
	})
	if size := fileSize(t, h.path+"-wal"); size != 0 {
		t.Errorf("%d bytes of the log are left that was there when Litestream was found", size)
	}
	if n := staleFrames(t, h, "copied"); n != 0 {
		t.Errorf("%d frames of the old log are left", n)
	}
	h.close(t)
	h.open(t)
	if !h.driver().litestream.cuts {
		t.Error("a store that is opened does not see Litestream before it writes")
	}
}
