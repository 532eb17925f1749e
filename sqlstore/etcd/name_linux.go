package etcd

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unnamed creates a file without a name in a directory, so that nothing is left of it when the process is killed. It is
// nil if the file system does not support that. The file can be opened again by path while it is open.
func unnamed(dir string) (f *os.File, path string) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, ""
	}
	f, path = os.NewFile(uintptr(fd), dir), fmt.Sprintf("/proc/self/fd/%d", fd)
	if _, err := os.Stat(path); err != nil {
		_ = f.Close() // it is empty
		return nil, ""
	}
	return f, path
}

// giveName gives a name to a file without one. Errors: fs.ErrExist if the name is taken.
func giveName(path, as string) error {
	if err := unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, as, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: path, New: as, Err: err}
	}
	return nil
}
