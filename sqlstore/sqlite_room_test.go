package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// limitFileSize limits the size of the files that this process writes.
func limitFileSize(t *testing.T, limit *syscall.Rlimit) {
	t.Helper()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, limit); err != nil {
		t.Fatal(err)
	}
}

// When a quota or a limit for the size of files is reached, writes fail as they do when the disk is full; when the
// limit is raised, the next write succeeds.
func TestFileSizeLimit(t *testing.T) {
	const child = "ROWLOCK_TEST_FILE_LIMIT"
	if os.Getenv(child) == "" { // the limit applies to a process
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileSizeLimit$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	h := newSQLiteHarness(t)
	last := mustCommit(t, h.store, createMap(t, "first"))[0]
	limitFileSize(t, &syscall.Rlimit{Cur: 512 << 10, Max: before.Max})
	defer limitFileSize(t, &before)
	var err error
	for i := 0; err == nil; i++ {
		var made []*resources.Object
		if made, err = h.store.Commit(context.Background(), createBlob(t, fmt.Sprint(i))); err == nil {
			last = made[0]
		}
	}
	if !errors.Is(err, resources.ErrUnavailable) || !errors.Is(err, resources.ErrFull) || errors.Is(err, resources.ErrUnknownOutcome) ||
		!strings.Contains(err.Error(), syscall.EFBIG.Error()) {
		t.Errorf("a write beyond the limit: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(h.driver().trimmer.path), "*probe*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
	limitFileSize(t, &before)
	if made := mustCommit(t, h.store, createBlob(t, "end"))[0]; made.Revision != last.Revision+1 {
		t.Errorf("revision %d after %d: the failures left something", made.Revision, last.Revision)
	}
	if err := h.store.Ready(context.Background()); err != nil {
		t.Errorf("ready: %v", err)
	}
}
