package backup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A backup replaces a regular file of its name: a link stays and leads to it, a pipe or a device receives the data, and
// a directory is refused before anything is read.
func TestWhatABackupIsWrittenTo(t *testing.T) {
	store := t.TempDir()
	from := bytes.NewReader(filled(t, 3))
	if _, err := Restore(t.Context(), from, Destination{Store: sqliteAt(store), DataDir: store}); err != nil {
		t.Fatal(err)
	}
	origin := Origin{Store: sqliteAt(store), DataDir: store, Now: time.Now}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	whole := func(t *testing.T, data []byte) {
		t.Helper()
		if _, err := Check(t.Context(), bytes.NewReader(data), nil, nil); err != nil {
			t.Errorf("what was written is no backup: %v", err)
		}
	}

	t.Run("link", func(t *testing.T) {
		if err := errors.Join(os.WriteFile(in("file"), nil, 0o600), os.Symlink("file", in("link"))); err != nil {
			t.Fatal(err)
		}
		if _, err := WriteFile(t.Context(), in("link"), origin); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(in("file"))
		if err != nil {
			t.Fatal(err)
		}
		whole(t, data)
		if to, err := os.Readlink(in("link")); to != "file" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
	})
	t.Run("link to nothing", func(t *testing.T) {
		if err := os.Symlink("later", in("dangling")); err != nil {
			t.Fatal(err)
		}
		if _, err := WriteFile(t.Context(), in("dangling"), origin); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(in("later"))
		if err != nil {
			t.Fatal(err)
		}
		whole(t, data)
		if to, err := os.Readlink(in("dangling")); to != "later" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
	})
	t.Run("pipe", func(t *testing.T) {
		if err := syscall.Mkfifo(in("pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		read := make(chan []byte, 1)
		go func() {
			data, err := os.ReadFile(in("pipe"))
			if err != nil {
				t.Error(err)
			}
			read <- data
		}()
		if _, err := WriteFile(t.Context(), in("pipe"), origin); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(in("pipe")); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
			t.Fatalf("the pipe is %v, %v", info, err)
		}
		whole(t, <-read)
	})
	t.Run("directory", func(t *testing.T) {
		if err := os.Mkdir(in("directory"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := WriteFile(t.Context(), in("directory"), Origin{}); !errors.Is(err, syscall.EISDIR) {
			t.Errorf("a directory: %v", err)
		}
	})
	if left, err := filepath.Glob(in(".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A backup replaces another backup, but no other existing file: if the database is named, it stays.
func TestWhatABackupReplaces(t *testing.T) {
	dir := t.TempDir()
	origin := Origin{Store: sqliteAt(dir), DataDir: dir, Now: time.Now}
	if _, err := Restore(t.Context(), bytes.NewReader(filled(t, 3)), Destination{Store: origin.Store, DataDir: dir}); err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(origin.Store.URL, "sqlite://")
	hard, text, empty, soft := filepath.Join(dir, "hard"), filepath.Join(dir, "text"), filepath.Join(dir, "empty"), filepath.Join(t.TempDir(), "soft")
	if err := errors.Join(os.Link(database, hard), os.WriteFile(text, []byte("what I wrote"), 0o600), os.WriteFile(empty, nil, 0o600), os.Symlink(dir, soft)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{database, "of the database"}, {database + "-wal", "of the database"}, {filepath.Join(soft, filepath.Base(database)), "of the database"},
		{hard, "no backup"}, {text, "no backup"}, {empty, ""}, {empty, ""}, {database + ".backup", ""},
	} {
		before, _ := os.ReadFile(c.path)
		_, err := WriteFile(t.Context(), c.path, origin)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.path, err)
			}
			continue
		}
		if after, _ := os.ReadFile(c.path); err == nil || !strings.Contains(err.Error(), c.want) || !bytes.Equal(before, after) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}

// CheckPlace finds a place among the files of the data directory under any name, also if the place does not exist yet.
func TestCheckPlace(t *testing.T) {
	dir := t.TempDir()
	data, other := filepath.Join(dir, "data"), filepath.Join(dir, "other")
	if err := os.MkdirAll(filepath.Join(data, keptDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, other); err != nil {
		t.Fatal(err)
	}
	t.Chdir(data)
	for place, refused := range map[string]bool{
		data + "/pki":               true,
		data + "/pki/a/b":           true,
		data + "/backups/../pki/a":  true,
		other + "/pki/a":            true,
		"pki/a":                     true,
		data:                        false,
		data + "/backups":           false,
		data + "/pki-backups/a":     false,
		other + "/backups":          false,
		"a":                         false,
		filepath.Join(dir, "pki/a"): false,
	} {
		if err := CheckPlace(place, data); (err != nil) != refused {
			t.Errorf("%s: %v", place, err)
		}
		if err := CheckPlace(place, other); (err != nil) != refused {
			t.Errorf("%s, the data directory being a link: %v", place, err)
		}
	}
}
