package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

const somebody, group = 12345, 12346

// owners returns the user and the group that own a file, or a link itself.
func owners(t *testing.T, path string) [2]uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // of Unix
	return [2]uint32{stat.Uid, stat.Gid}
}

// MakeDir makes the target of a dangling link, also by way of further links, relative to the link. If it cannot be made, that is an error; an
// existing directory keeps its mode.
func TestMakeDir(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.MkdirAll(in("real/deep"), 0o755), os.Chmod(in("real/deep"), 0o755), os.Symlink("real/deep", in("there")), os.Symlink("../target/x", in("there/second")),
		os.Symlink("there/second", in("first")), os.Symlink("loop", in("loop")), os.WriteFile(in("file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, makes := range map[string]string{"first/": "real/target/x", "a/b/c": "a/b/c", "there": "real/deep"} {
		if err := MakeDir(in(path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if info, err := os.Lstat(in(makes)); err != nil || !info.IsDir() {
			t.Errorf("%s: %s is %v, %v", path, makes, info, err)
		}
	}
	for path, want := range map[string]fs.FileMode{"a": 0o700, "a/b/c": 0o700, "real/target": 0o700, "real/deep": 0o755} {
		if info, err := os.Stat(in(path)); err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
	for path, want := range map[string]error{"loop": syscall.ELOOP, "loop/a": syscall.ELOOP, "file/a": syscall.ENOTDIR} {
		if err := MakeDir(in(path)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// Directories that root creates get the owner of the directory that contains them, at any depth. An existing file, or the target of a link that the
// owner of the directory has put there, keeps its owner.
func TestGiven(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone gives files away, and this is user", os.Geteuid())
	}
	dir, foreign := t.TempDir(), filepath.Join(t.TempDir(), "of root")
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(in("theirs"), 0o755), os.Chown(in("theirs"), somebody, group), os.WriteFile(in("theirs/old"), nil, 0o600),
		os.WriteFile(foreign, nil, 0o600), os.Symlink(foreign, in("theirs/link")), os.Link(foreign, in("theirs/hard")), os.Symlink("theirs/later", in("later"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"theirs/a/b", "own/a", "later"} {
		if err := MakeDir(in(path)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"theirs/new", "theirs/a/b/new", "theirs/old", "theirs/link", "theirs/hard", "own/new"} {
		f, err := Open(in(path))
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	theirs, roots := [2]uint32{somebody, group}, owners(t, dir)
	for path, want := range map[string][2]uint32{"theirs/a": theirs, "theirs/a/b": theirs, "theirs/new": theirs, "theirs/a/b/new": theirs, "theirs/later": theirs,
		"theirs/old": roots, "theirs/hard": roots, "own/a": roots, "own/new": roots, "later": roots} {
		if got := owners(t, in(path)); got != want {
			t.Errorf("%s belongs to %v, want %v", path, got, want)
		}
	}
	if got := owners(t, foreign); got != roots {
		t.Errorf("what a link leads to belongs to %v", got)
	}
}

// CheckDir removes the files of processes that were killed during their test, also concurrently. An entry with another name, with content, or that is
// not a file, stays.
func TestCheckDirLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(in(Tried+"123"), nil, 0o600), os.WriteFile(in(Tried+"4"), []byte("x"), 0o600), os.Mkdir(in(Tried+"5"), 0o700),
		os.WriteFile(in("other"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 8 {
		go func() {
			var errs []error
			for range 50 {
				errs = append(errs, CheckDir(in("missing/deep")))
			}
			done <- errors.Join(errs...)
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if want := []string{Tried + "4", Tried + "5", "other"}; !slices.Equal(names, want) {
		t.Errorf("there are %v, want %v", names, want)
	}
}
