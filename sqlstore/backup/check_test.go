package backup

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/archive"
)

// header returns a header of the present rowlock.
func header(t *testing.T) archive.Header {
	t.Helper()
	known, err := migrations.Known("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	return archive.Header{Created: time.Now(), Database: "sqlite", Schema: known, Revision: 7, Beyond: 9}
}

// forged returns a backup with a correct checksum, with files and an object.
func forged(t *testing.T, h archive.Header, revision int64, files ...archive.File) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		err = errors.Join(err, w.File(f))
	}
	err = errors.Join(err, w.Table(archive.Table{Name: "objects", Columns: sqlstore.ObjectColumns}),
		w.Row([]any{"configmaps", "default", "c", revision, nil, nil, `{"metadata":{}}`}), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// restored restores a backup into a new directory.
func restored(t *testing.T, data []byte) (r Restored, dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	r, err = Restore(t.Context(), bytes.NewReader(data), Destination{Store: sqliteAt(dir), DataDir: dir})
	return r, dir, err
}

// A backup from which no store can go on, or with unknown content, is refused before anything is written, whatever its
// checksum.
func TestForgedBackups(t *testing.T) {
	with := func(change func(*archive.Header)) archive.Header {
		h := header(t)
		change(&h)
		return h
	}
	known := header(t).Schema
	for _, tc := range []struct {
		name, want string
		header     archive.Header
		object     int64
	}{
		{"a revision above which there is none", "its header has revision 9223372036854775807",
			with(func(h *archive.Header) { h.Revision, h.Beyond = math.MaxInt64, math.MaxInt64 }), 7},
		{"beyond without room for a jump", "its header has revision",
			with(func(h *archive.Header) { h.Beyond = sqlstore.RevisionMax + 1 }), 7},
		{"an object of such a revision", "a row has the revision 9223372036854775807", header(t), math.MaxInt64},
		{"an object before all revisions", "a row has the revision -1", header(t), -1},
		{"another database", `a database "oracle", which this rowlock does not know`, with(func(h *archive.Header) { h.Database = "oracle" }), 7},
		{"no database", `a database "", which this rowlock does not know`, with(func(h *archive.Header) { h.Database = "" }), 7},
		{"a path", `a database "./sqlite", which this rowlock does not know`, with(func(h *archive.Header) { h.Database = "./sqlite" }), 7},
		{"later tables", "tables of version 99", with(func(h *archive.Header) { h.Schema = 99 }), 7},
		{"tables two versions ahead", "use a newer one", with(func(h *archive.Header) { h.Schema = known + 2 }), 7},
		{"no tables", "tables of version 0,", with(func(h *archive.Header) { h.Schema = 0 }), 7},
	} {
		_, dir, err := restored(t, forged(t, tc.header, tc.object))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the directory was made (%v)", tc.name, err)
		}
	}
}

// The counter goes on above every revision of a backup: above its header, and above an object that is ahead of that.
// The restored store can be backed up and restored again. Tables that are one version ahead are accepted.
func TestCounterAboveAll(t *testing.T) {
	ahead := header(t)
	ahead.Schema++
	high := header(t)
	high.Revision, high.Beyond = sqlstore.RevisionMax-1<<34, sqlstore.RevisionMax-1<<34
	for name, data := range map[string][]byte{
		"tables one version ahead": forged(t, ahead, 7),
		"the header":               forged(t, high, 7),
		"an object":                forged(t, header(t), high.Beyond),
	} {
		r, dir, err := restored(t, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if highest := max(r.Beyond, r.Revision); name != "tables one version ahead" && highest != high.Beyond || r.Counter <= highest {
			t.Errorf("%s: the counter begins at %d, the highest revision is %d", name, r.Counter, highest)
		}
		var again bytes.Buffer
		if _, err := Write(t.Context(), &again, Origin{Store: sqliteAt(dir), DataDir: dir, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		if next, _, err := restored(t, again.Bytes()); err != nil || next.Counter <= r.Counter {
			t.Errorf("%s, again: the counter begins at %d after %d, %v", name, next.Counter, r.Counter, err)
		}
	}
}

// An import, or anything else that fills a database, cannot make a store with revisions beyond the maximum either.
func TestFinishBeyondAll(t *testing.T) {
	dir := t.TempDir()
	target, err := sqlstore.OpenTarget(t.Context(), sqliteAt(dir))
	if err != nil {
		t.Fatal(err)
	}
	revision, err := target.Finish(t.Context(), math.MaxInt64, func(int64) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "above which no store can go on") {
		t.Errorf("it begins at %d, %v", revision, err)
	}
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "rowlock.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a database (%v)", err)
	}
}

// Only the owner can read a restored key, and write a restored file, whatever the backup says.
func TestModesOfFiles(t *testing.T) {
	private := []byte("-----BEGIN EC PRIVATE KEY-----\n")
	_, dir, err := restored(t, forged(t, header(t), 7,
		archive.File{Name: "pki/ca.key", Mode: 0o777, Data: []byte("x")},
		archive.File{Name: "pki/other.pem", Mode: fs.ModeSetuid | 0o644, Data: private},
		archive.File{Name: "pki/ca.crt", Mode: 0o777, Data: []byte("x")},
		archive.File{Name: "pki/own.crt", Mode: 0o600, Data: []byte("x")},
		archive.File{Name: "pki/lost.crt", Mode: 0, Data: []byte("x")}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"ca.key": 0o600, "other.pem": 0o600, "ca.crt": 0o644, "own.crt": 0o600, "lost.crt": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, "pki", name)); err != nil {
			t.Error(err)
		} else if info.Mode() != want {
			t.Errorf("%s: %v, want %v", name, info.Mode(), want)
		}
	}
}

// Check ends when its context is canceled, and does not read a large backup to its end first.
func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, bytes.NewReader(filled(t, 3)), nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
