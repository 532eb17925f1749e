package sqlstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// A process that has opened a lock's file before it was removed does not get the lock through it.
func TestLockThatIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rowlock.db")
	first, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := os.Open(path + ".lock") // as a process does that is about to lock it
	if err != nil {
		t.Fatal(err)
	}
	if err := first.remove(); err != nil {
		t.Fatal(err)
	}
	second, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.release() //nolint:errcheck // the test removes the file
	if late, err := lockOpened(path, gone); late != nil || err != nil {
		t.Errorf("the file that is gone: %v, %v", late, err)
	}
	if _, err := lockFile(path); err == nil {
		t.Error("a third one got the lock")
	}
}

// Only one process at a time has the lock, however many try, while its file is removed again and again.
func TestLockIsOfOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rowlock.db")
	var owners, locked atomic.Int64
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := 0; i < 300 && !t.Failed(); i++ {
				lock, err := lockFile(path)
				if err != nil {
					if !strings.Contains(err.Error(), "in use by another process") {
						t.Error(err)
					}
					continue
				}
				locked.Add(1)
				if owners.Add(1) != 1 {
					t.Error("two have the lock")
				}
				runtime.Gosched()
				owners.Add(-1)
				leave := lock.remove
				if (n+i)%2 == 0 {
					leave = lock.release
				}
				if err := leave(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if locked.Load() == 0 {
		t.Error("nobody got it")
	}
}

// It is an error if the locked file is never the one in place, or if that cannot be determined.
func TestLockThatIsNeverInPlace(t *testing.T) {
	dir := t.TempDir()
	rounds := 0
	removed := func(path string) (*os.File, error) {
		rounds++
		f, err := os.Create(path)
		return f, errors.Join(err, os.Remove(path))
	}
	if _, err := lockOf(filepath.Join(dir, "rowlock.db"), removed); err == nil || rounds != lockRounds {
		t.Errorf("after %d rounds: %v", rounds, err)
	}
	unknown := func(string) (*os.File, error) {
		rounds++
		fd, err := syscall.Open(os.Args[0], syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		return os.NewFile(uintptr(fd), filepath.Join(os.Args[0], "rowlock.db.lock")), err
	}
	rounds = 0
	if _, err := lockOf(filepath.Join(dir, "rowlock.db"), unknown); !errors.Is(err, syscall.ENOTDIR) || rounds != 1 {
		t.Errorf("after %d rounds: %v", rounds, err)
	}
}

// A link to a file that does not exist yet leads to where SQLite creates it: there are its lock and its log.
func TestPathOfLinkToNothing(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(dir, "disk")
	for _, link := range [][2]string{{"disk", "mounted"}, {disk + "/rowlock.db", "absolute.db"}, {"mounted/../disk/rowlock.db", "relative.db"}, {"absolute.db", "twice.db"}, {"round.db", "round.db"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"absolute.db": disk + "/rowlock.db", "relative.db": disk + "/rowlock.db", "twice.db": disk + "/rowlock.db",
		"mounted/a.db": disk + "/a.db", "b.db": dir + "/b.db", "round.db": dir + "/round.db", "missing/c.db": dir + "/missing/c.db"} {
		if got, err := sqlitePath(sqliteScheme + filepath.Join(dir, name)); err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", name, got, err, want)
		}
	}
	long := dir + strings.Repeat("/"+strings.Repeat("x", 100), (pathMost-len(dir)-2)/101)
	for name, want := range map[string]string{strings.Repeat("y", pathMost-len(long)-1): "", strings.Repeat("y", pathMost-len(long)): "more than the 504 that it may have"} {
		options := Options{URL: sqliteScheme + filepath.Join(long, name)}
		s, err := Open(t.Context(), options)
		if err == nil {
			err = s.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a path of %d bytes: %v", len(long)+1+len(name), err)
		}
	}
	// A file has a longer name while it is filled.
	for name, want := range map[string]string{strings.Repeat("z", pathMost-len(long)-12): "", strings.Repeat("z", pathMost-len(long)-11): "more than the 493 that it may have"} {
		options := Options{URL: sqliteScheme + filepath.Join(long, name)}
		err := CheckTarget(t.Context(), options)
		if err == nil {
			var target *Target
			if target, err = OpenTarget(t.Context(), options); err == nil {
				err = target.Close()
			}
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a target with a path of %d bytes: %v", len(long)+1+len(name), err)
		}
	}
}
