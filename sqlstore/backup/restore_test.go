package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/files"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/archive"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

func sqliteAt(dir string) sqlstore.Options {
	return sqlstore.Options{URL: "sqlite://" + filepath.Join(dir, "rowlock.db"), Logger: slog.New(slog.DiscardHandler)}
}

// filled returns a backup of a store with so many objects and a file of keys.
func filled(t *testing.T, objects int) []byte {
	t.Helper()
	dir := t.TempDir()
	s, err := sqlstore.Open(t.Context(), sqliteAt(dir))
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		key := resources.Key{Resource: "configmaps", Namespace: "default", Name: fmt.Sprintf("c%05d", i)}
		// Data that does not compress, so that the backup is read in many pieces.
		w := resources.Write{Op: resources.Create, Key: key, Draft: resources.Draft{
			Data: fmt.Appendf(nil, `{"metadata":{"resourceVersion":"0"},"v":"%x"}`, bytes.Repeat([]byte{byte(i), byte(i >> 3), byte(i * 7)}, 100+i%17))}}
		w.Draft.RevisionStart, w.Draft.RevisionEnd, _ = resources.RevisionSpan(w.Draft.Data)
		if _, err := s.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pki", "ca.key"), []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := Write(t.Context(), &b, Origin{Store: sqliteAt(dir), DataDir: dir, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// interrupted is a backup that calls at during the second reading, at some positions.
type interrupted struct {
	*bytes.Reader
	passes int
	at     func(offset int64)
}

func (i *interrupted) Seek(offset int64, whence int) (int64, error) {
	i.passes++
	return i.Reader.Seek(offset, whence)
}

func (i *interrupted) Read(p []byte) (int, error) {
	if i.passes > 0 {
		i.at(i.Size() - int64(i.Len()))
	}
	return i.Reader.Read(p[:min(len(p), 4096)])
}

// count opens a store and counts its objects.
func count(t *testing.T, o sqlstore.Options) int {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	snap, err := s.Snapshot(t.Context(), "configmaps", resources.At{})
	if err != nil {
		t.Fatal(err)
	}
	return snap.Count("", "")
}

// A process that is killed at any moment of a restore leaves a state that servers refuse and that another attempt
// restores.
func TestKilledWhileRestoring(t *testing.T) {
	data := filled(t, 300)
	var left []string // copies of the directory as a killed process leaves it
	to := t.TempDir()
	source := &interrupted{Reader: bytes.NewReader(data), at: func(int64) {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(len(left)))
		if err := os.CopyFS(dir, os.DirFS(to)); err != nil {
			t.Fatal(err)
		}
		left = append(left, dir)
	}}
	r, err := Restore(t.Context(), source, Destination{Store: sqliteAt(to), DataDir: to})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, sqliteAt(to)); n != 300 || CheckFinished(to) != nil {
		t.Fatalf("%d objects, %v", n, CheckFinished(to))
	}
	if len(left) < 3 {
		t.Fatalf("the backup was read in %d pieces", len(left))
	}
	// The last moment: the database has its content, and the mark is still there.
	m := mark{Created: r.Created.String(), Revision: r.Revision, Counter: r.Counter}
	ended := Destination{Store: sqliteAt(to), DataDir: to}
	if err := ended.mark(m); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), bytes.NewReader(filled(t, 3)), ended); !errors.Is(err, sqlstore.ErrNotEmpty) || CheckFinished(to) == nil {
		t.Errorf("another backup than the one that is there: %v", err)
	}
	// And the first moments: there is only a file that tests the directory, and a mark without its name, before the
	// restore has begun.
	first := t.TempDir()
	for _, name := range []string{Unfinished + partial, files.Tried + "1"} {
		if err := os.WriteFile(filepath.Join(first, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Restore(t.Context(), bytes.NewReader(data), Destination{Store: sqliteAt(first), DataDir: first}); err != nil || count(t, sqliteAt(first)) != 300 {
		t.Errorf("killed at the first moment: again: %v", err)
	}
	left = append(left, to)
	for i, dir := range left {
		if err := CheckFinished(dir); !errors.Is(err, ErrUnfinished) {
			t.Errorf("killed at moment %d: %v", i, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "rowlock.db")); err == nil && dir != to {
			t.Errorf("killed at moment %d: the database has its name", i)
		}
		if _, err := Restore(t.Context(), bytes.NewReader(data), Destination{Store: sqliteAt(dir), DataDir: dir}); err != nil {
			t.Errorf("killed at moment %d: again: %v", i, err)
			continue
		}
		if n := count(t, sqliteAt(dir)); n != 300 || CheckFinished(dir) != nil {
			t.Errorf("killed at moment %d: %d objects, %v", i, n, CheckFinished(dir))
		}
		if key, err := os.ReadFile(filepath.Join(dir, "pki", "ca.key")); string(key) != "key" {
			t.Errorf("killed at moment %d: the key is %q, %v", i, key, err)
		}
	}
}

// The same on Postgres, where an attempt that is cut off by the end of its connection leaves nothing in the tables.
func TestKilledWhileRestoringPostgres(t *testing.T) {
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	data := filled(t, 300)
	dir := filepath.Join(t.TempDir(), "data")
	to := Destination{Store: sqlstore.Options{URL: c.URL(), Schema: "s", Logger: slog.New(slog.DiscardHandler)}, DataDir: dir}
	ctx, kill := context.WithCancel(t.Context())
	half := &interrupted{Reader: bytes.NewReader(data), at: func(offset int64) {
		if offset > int64(len(data))/2 {
			kill()
		}
	}}
	if _, err := Restore(ctx, half, to); err == nil {
		t.Fatal("it went on")
	}
	if err := CheckFinished(dir); !errors.Is(err, ErrUnfinished) {
		t.Errorf("cut off: %v", err)
	}
	if err := sqlstore.CheckTarget(t.Context(), to.Store); err != nil {
		t.Errorf("cut off: %v", err)
	}
	r, err := Restore(t.Context(), bytes.NewReader(data), to)
	if err != nil {
		t.Fatal(err)
	}
	// The last moment: the database has its content, and the mark is still there.
	if err := to.mark(mark{Created: r.Created.String(), Revision: r.Revision, Counter: r.Counter}); err != nil {
		t.Fatal(err)
	}
	if again, err := Restore(t.Context(), bytes.NewReader(data), to); err != nil || again.Counter != r.Counter || CheckFinished(dir) != nil {
		t.Errorf("%v, %v, counter %d, before %d", err, CheckFinished(dir), again.Counter, r.Counter)
	}
	if n := count(t, to.Store); n != 300 {
		t.Errorf("%d objects", n)
	}
	if _, err := Restore(t.Context(), bytes.NewReader(data), Destination{Store: to.Store, DataDir: filepath.Join(t.TempDir(), "x")}); !errors.Is(err, sqlstore.ErrNotEmpty) {
		t.Errorf("into a store that is there: %v", err)
	}
}

// A backup that changes between its two readings is not restored.
func TestChangedBetweenReadings(t *testing.T) {
	data := filled(t, 50)
	dir, changed := t.TempDir(), data[len(data)-40]^1
	source := &interrupted{Reader: bytes.NewReader(data), at: func(int64) { data[len(data)-40] = changed }}
	if _, err := Restore(t.Context(), source, Destination{Store: sqliteAt(dir), DataDir: dir}); err == nil {
		t.Error("it was restored")
	}
	if err := CheckFinished(dir); !errors.Is(err, ErrUnfinished) {
		t.Errorf("after that: %v", err)
	}
}

// A file of a backup, which may come from anybody, is written only into the data directory.
func TestFilesStayInside(t *testing.T) {
	for _, name := range []string{"../x", "pki/../../x", "/etc/x", "rowlock.db", "pki", "pki/../rowlock.db"} {
		var b bytes.Buffer
		w, err := archive.NewWriter(&b, header(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.File(archive.File{Name: name, Mode: 0o600, Data: []byte("x")}), w.Close()); err != nil {
			t.Fatal(err)
		}
		outside := t.TempDir()
		dir := filepath.Join(outside, "data")
		_, err = Restore(t.Context(), bytes.NewReader(b.Bytes()), Destination{Store: sqliteAt(dir), DataDir: dir})
		if err == nil || !strings.Contains(err.Error(), "does not belong into a data directory") {
			t.Errorf("%s: restored, %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(outside, "x")); err == nil {
			t.Errorf("%s: written", name)
		}
	}
}
