package backup

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/sqlstore/archive"
)

// endless is a stream of zeros that counts how much of it was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	e.read += len(p)
	if e.read > 1<<20 {
		return 0, errors.New("more than a megabyte was read")
	}
	return len(p), nil
}

// Open reads no more of a stream that is not a backup than it needs to detect that.
func TestOpenOfWhatIsNoBackup(t *testing.T) {
	for _, in := range []io.Reader{&endless{}, strings.NewReader(""), strings.NewReader(`{"rowlock`)} {
		f, err := Open("-", in)
		if !errors.Is(err, archive.ErrNotBackup) {
			t.Errorf("%v", err)
		}
		if err == nil {
			f.Close()
		}
	}
}

// A stream, from a named pipe or the standard input, can be read from the beginning again.
func TestOpenOfStreams(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	const content = `{"rowlockBackup":1 and what follows`
	wrote := make(chan error)
	go func() { wrote <- os.WriteFile(pipe, []byte(content), 0o600) }()
	for _, name := range []string{pipe, "-"} {
		f, err := Open(name, strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for range 2 {
			if data, err := io.ReadAll(f); err != nil || string(data) != content {
				t.Errorf("%s: %q, %v", name, data, err)
			}
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}
