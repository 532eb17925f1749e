package etcd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// writeUpTo writes a snapshot of some megabytes under a limit for the size of files, and returns its size.
func writeUpTo(limit uint64, path string, by naming) (size uint64, err error) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return 0, err
	}
	bound := before
	bound.Cur = min(limit, before.Cur)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &bound); err != nil {
		return 0, err
	}
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) //nolint:errcheck // the old limit may always be restored
	w, err := create(path, by)
	if err != nil {
		return 0, err
	}
	defer w.Close() //nolint:errcheck // it is finished, or its error is known
	for i := range 60 {
		if err := w.Put(Entry{Key: fmt.Sprintf("/registry/%d", i), Value: bytes.Repeat([]byte("a"), 100<<10), Revision: int64(i + 2)}); err != nil {
			return 0, err
		}
	}
	if err := w.Finish(100); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()), os.Remove(path)
}

// If the disk is full at any point, or the file cannot be created, the error has the final name of the file, and
// nothing is left.
func TestErrorsNameTheSnapshot(t *testing.T) {
	const child = "ROWLOCK_TEST_FILE_LIMIT"
	if os.Getenv(child) == "" { // the limit applies to a process
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestErrorsNameTheSnapshot$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for kind, by := range map[string]naming{
		"of this system": {unnamed, giveName},
		"with a name":    {func(string) (*os.File, string) { return nil, "" }, giveName},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "snapshot")
		whole, err := writeUpTo(1<<40, path, by)
		if err != nil {
			t.Fatal(err)
		}
		fails := func(limit uint64, path string) {
			_, err := writeUpTo(limit, path, by)
			if err == nil || !strings.Contains(err.Error(), " "+path+": ") || strings.Contains(err.Error(), "/proc/") || strings.Contains(err.Error(), "/.snapshot") {
				t.Errorf("%s, no more than %d bytes: %v", kind, limit, err)
			}
		}
		for _, limit := range []uint64{1 << 10, 16 << 10, 24 << 10, 64 << 10, 1 << 20, 5 << 20, whole - 40, whole - 1} {
			fails(limit, path)
		}
		fails(1<<40, filepath.Join(dir, "nowhere", "snapshot"))
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: there is %v, %v", kind, left, err)
		}
	}
}
