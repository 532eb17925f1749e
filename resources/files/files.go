// Package files makes what belongs below a data directory. Root, who restores a backup for a server that runs as another user, say, leaves nothing there
// that this user cannot open: what is made belongs to the owner and the group of the directory that it is in.
//
// That directory may be anybody's. So root gives away only what it has just made, by its handle: what somebody has put in the place of a name, a link
// to a file of root's perhaps, stays whose it is.
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

// MakeDir makes a directory that its owner alone can read, and those above it that are missing. What is there stays as it is. Of a link to nothing, what it
// leads to is made.
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
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) { // somebody else was quicker
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

// Tried begins the names of the empty files by which CheckDir tries. One is there as long as that takes, or, where the process was killed, until somebody
// tries again.
const Tried = ".rowlock-tried-"

// CheckDir tries whether a file can be made in a directory, or, where that is missing, in the one above it in which it would be made. Nothing is left of it,
// nor of those who were killed while they tried.
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
				_ = removeTried(filepath.Join(path, entry.Name())) // where it cannot be, it does no harm
			}
		}
		return err
	}
}

// removeTried removes an empty file, if nobody else has: that it could be made is all that there was to know.
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

// Open opens a file to read and write it. One that is not there is made, and its owner alone can read it.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // it may be a link to nothing
	}
	if err != nil {
		return nil, err
	}
	if err := Give(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Give gives a file that this process has just made to whom the directory belongs that it is in, if root has made it. Where root may not do
// that, as in some containers, it stays root's.
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
