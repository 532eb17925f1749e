package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"
)

// ServeDebugSocket serves Go's profiles and the verbosity of the log on a Unix socket until ctx ends, as kube-apiserver does. It requires no
// authentication, and works even when the server answers nothing else. Only the owner may open the socket. A socket that another process has left
// at the path is replaced.
func (s *Server) ServeDebugSocket(ctx context.Context, path string) error {
	l, err := listenPrivately(ctx, path)
	if err != nil {
		return fmt.Errorf("the socket for debugging: %w", err)
	}
	e := echo.New()
	s.addProfiles(e)
	served := &http.Server{Handler: e, ReadHeaderTimeout: 32 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = served.Close() })
	defer stop()
	if err := served.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the socket for debugging: %w", err)
	}
	return nil
}

// socketPathMost is the maximum length of a socket's path in bytes, without the terminating NUL.
const socketPathMost = len(syscall.RawSockaddrUnix{}.Path) - 1

// listenPrivately creates a socket that nobody but its owner can ever open. It creates the socket in a directory that only the owner may enter,
// because a new socket has the permissions that the umask leaves until they are set.
func listenPrivately(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > socketPathMost {
		return nil, fmt.Errorf("the path has %d bytes, more than the %d that it may have: %s", len(path), socketPathMost, path)
	}
	if is, err := os.Lstat(path); err == nil && is.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is no socket", path)
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(private) }() // an empty directory that remains does no harm
	made, short := filepath.Join(private, "s"), filepath.Join(private, "s")
	if len(made) > socketPathMost {
		d, err := os.Open(private)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		short = fmt.Sprintf("/proc/self/fd/%d/s", d.Fd())
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", short)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it would unlink the socket's former name
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
