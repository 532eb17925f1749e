package backup

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What comes through a pipe, by its name or as the standard input, can be read from the beginning again.
func TestOpenOfStreams(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error)
	go func() { wrote <- os.WriteFile(pipe, []byte("content"), 0o600) }()
	for _, name := range []string{pipe, "-"} {
		f, err := Open(name, strings.NewReader("content"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for range 2 {
			if data, err := io.ReadAll(f); err != nil || string(data) != "content" {
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
