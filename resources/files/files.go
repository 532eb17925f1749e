// Package files makes files and directories below a data directory. When root runs the program (to restore a backup for a server that runs as another
// user, for example), it leaves nothing there that this user cannot open: what it makes gets the owner and the group of the directory that contains
// it.
//
// Any user may own that directory. So root changes the owner only of files that it has just made, by their handles: if a user has put something else
// in the place of a name, a link to a file of root's perhaps, neither that nor its target changes hands.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MakeDir makes a directory that only its owner can read, and its missing parents. An existing one stays unchanged. For a dangling link, it makes the
// link's target.
func MakeDir(path string) error {
	path = filepath.Clean(path)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if to, err := os.Readlink(path); err == nil {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		return MakeDir(to)
	}
	if err := MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) { // another process was quicker
		return nil
	} else if err != nil {
		return err
	}
	made, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(Give(made), made.Close())
}

// Tried is the prefix of the empty files by which CheckDir tests a directory. Such a file exists only during the test or, if the process was killed,
// until the next test.
const Tried = ".rowlock-tried-"

// CheckDir tests whether a file can be made in a directory or, if that is missing, in the nearest existing parent. It leaves no file behind, and
// removes those of processes that were killed during their test.
func CheckDir(path string) error {
	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		f, err := os.CreateTemp(path, Tried+"*")
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
			if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
				continue
			}
		}
		if err != nil {
			if at := (*fs.PathError)(nil); errors.As(err, &at) {
				err = at.Err
			}
			return fmt.Errorf("no file can be made in %s: %w", path, err)
		}
		err = errors.Join(f.Close(), removeTried(f.Name()))
		left, _ := os.ReadDir(path)
		for _, entry := range left {
			if strings.HasPrefix(entry.Name(), Tried) {
				_ = removeTried(filepath.Join(path, entry.Name())) // if it fails, the file does no harm
			}
		}
		return err
	}
}

// removeTried removes an empty file, unless another process has: the test is only whether the file could be made.
func removeTried(name string) error {
	info, err := os.Lstat(name)
	if err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		err = os.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Open opens a file for reading and writing. If it does not exist, it is made, and only its owner can read it.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // it may be a dangling link
	}
	if err != nil {
		return nil, err
	}
	if err := Give(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Sync flushes a file, or the names in a directory.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Give changes the owner of a file that this process has just made to the owner of its directory, if the process is root. Where root may not do that,
// as in some containers, the file stays root's.
func Give(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	err = syscall.Fchown(int(f.Fd()), int(owner.Uid), int(owner.Gid))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return os.NewSyscallError("fchown", err)
}
