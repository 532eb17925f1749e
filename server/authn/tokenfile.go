package authn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
)

// fileTokens authenticates by the tokens of a file (--token-auth-file), which it reads again when it has changed: a removed token is
// refused within tokenFileInterval. kube-apiserver reads the file once. It is an authenticator.Token.
type fileTokens struct {
	path     string
	now      func() time.Time
	logger   *slog.Logger
	patience time.Duration

	mu      sync.Mutex // held during a check
	stamp   os.FileInfo
	looked  atomic.Int64 // Unix nanoseconds
	current atomic.Pointer[tokenfile.TokenAuthenticator]
}

// tokenFileInterval is the minimal interval of checking the file, which is done when a token is presented.
const tokenFileInterval = time.Second

// tokenFilePatience is how long the request that begins a check waits for it: usually it is answered by what a changed file says now. Others never
// wait, because a file system that hangs must not keep requests from being authenticated.
const tokenFilePatience = time.Second

// newFileTokens reads a file; an error of this first read is returned.
func newFileTokens(path string, now func() time.Time, logger *slog.Logger) (*fileTokens, error) {
	f := &fileTokens{path: path, now: now, logger: logger, patience: tokenFilePatience}
	f.looked.Store(now().UnixNano())
	return f, f.read()
}

func (f *fileTokens) read() error {
	// The stamp is taken before reading: a change in between is then noticed by the next check.
	stamp, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("token file %s: %w", f.path, err)
	}
	tokens, err := tokenfile.NewCSV(f.path)
	if !errors.As(err, new(*fs.PathError)) { // what keeps it from being read, such as its mode, may change without a trace in the stamp
		f.stamp = stamp
	}
	if err != nil {
		return fmt.Errorf("token file %s: %w", f.path, err)
	}
	f.current.Store(tokens)
	return nil
}

// AuthenticateToken implements authenticator.Token.
func (f *fileTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	f.refresh()
	return f.current.Load().AuthenticateToken(ctx, token)
}

// refresh begins a check if one is due.
func (f *fileTokens) refresh() {
	now := f.now().UnixNano()
	due := func() bool { since := now - f.looked.Load(); return since >= int64(tokenFileInterval) || since < 0 }
	if !due() || !f.mu.TryLock() {
		return
	}
	if !due() {
		f.mu.Unlock()
		return
	}
	f.looked.Store(now)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.mu.Unlock()
		f.check()
	}()
	patience := time.NewTimer(f.patience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
}

// check reads the file if it has changed. If it cannot be read, or takes long, its previous content stays in force. The caller holds mu.
func (f *fileTokens) check() {
	stamp, err := os.Stat(f.path)
	if err == nil && os.SameFile(stamp, f.stamp) && stamp.Size() == f.stamp.Size() && stamp.ModTime().Equal(f.stamp.ModTime()) {
		return
	}
	if err == nil {
		err = f.read()
	}
	if err != nil {
		f.logger.Error("the changed token file could not be read, what it said before stays in use", "file", f.path, "error", err)
		return
	}
	f.logger.Info("read the changed token file", "file", f.path)
}
