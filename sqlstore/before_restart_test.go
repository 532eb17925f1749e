package sqlstore

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A restored database begins a new history, in which the first update of each object has the object before.
func TestObjectBeforeAfterRestore(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	o := mustCommit(t, h.store, numbered("a", 0, 0))[0]
	o = mustCommit(t, h.store, numbered("a", 1, o.Revision))[0]
	conn := h.connect(t)
	h.close(t)
	if _, err := conn.Exec(ctx, "UPDATE meta SET origin = 'elsewhere'"); err != nil {
		t.Fatal(err)
	}
	h.store = h.open(t)
	var left int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM changes").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d changes of before are left, %v", left, err)
	}
	for n := range int64(3) {
		o = mustCommit(t, h.store, numbered("a", 2+n, o.Revision))[0]
	}
	checkLog(t, h.store)
	h.close(t)
	h.store = h.open(t)
	if n, err := readHistory(h.store); err != nil || n != 3 {
		t.Errorf("%d updates, %v", n, err)
	}
}

// killedVariable makes the program of this test a server that writes to a file, and prunes with nearly every write.
const killedVariable = "ROWLOCK_TEST_KILLED"

func writeUntilKilled(path string) error {
	s, err := Open(context.Background(), Options{URL: "sqlite://" + path, HistorySize: 16 << 10, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	failed := make(chan error, 3)
	for n := range cap(failed) {
		go func() {
			for i := 0; ; i++ {
				if err := updateOften(s, fmt.Sprintf("%d-%d-%d", os.Getpid(), n, i), 20); err != nil {
					failed <- err
					return
				}
				fmt.Println("changed")
			}
		}()
	}
	return <-failed
}

// A server that is killed while it writes and prunes leaves everything that history needs.
func TestObjectBeforeAfterKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rowlock.db")
	for round := range 5 {
		cmd := exec.CommandContext(testContext(t), os.Args[0])
		cmd.Env = append(os.Environ(), killedVariable+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(out)
		for range 4 + 2*round {
			if !said.Scan() {
				t.Fatal("the server ended")
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it returns that the process was killed
		s := mustOpen(t, Options{URL: "sqlite://" + path, HistoryAge: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		checkLog(t, s)
		if n, err := readHistory(s); err != nil || n == 0 {
			t.Errorf("%d updates, %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
