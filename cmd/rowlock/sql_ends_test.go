package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/backup"
)

// longStepVariable makes the test binary run rowlock with a query on the named database: only a process can end in the middle of a step.
const longStepVariable = "ROWLOCK_TEST_LONG_STEP"

// longStep has one row that exceeds the output buffer, and one whose only step takes ten minutes.
const longStep = "WITH v AS MATERIALIZED (SELECT replace(hex(zeroblob(7000000)), '0', 'a') AS x, replace(hex(zeroblob(3000000)), '0', 'a') || 'b' AS y) " +
	"SELECT hex(zeroblob(100000)) FROM v UNION ALL SELECT instr(x, y) FROM v"

// A query ends after its timeout, and by signals, even while SQLite is in a long step.
func TestSQLEndsWithinAStep(t *testing.T) {
	if file := os.Getenv(longStepVariable); file != "" {
		os.Args = append([]string{"rowlock", "sql", "--datastore", "sqlite://" + file, "-o", "csv", longStep}, strings.Fields(os.Getenv(longStepVariable+"_FLAGS"))...)
		main()
	}
	file := filepath.Join(t.TempDir(), "rowlock.db")
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: "sqlite://" + file, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags, says string
		by          os.Signal
	}{
		{"--timeout 2s", "took longer than 2s", nil}, {"--timeout 10m", "canceled", os.Interrupt}, {"--timeout 10m", "canceled", syscall.SIGTERM},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // only a failing test takes that long
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSQLEndsWithinAStep$")
		cmd.Env = append(os.Environ(), longStepVariable+"="+file, longStepVariable+"_FLAGS="+c.flags)
		out, errs := started(t, cmd)
		if _, err := out.Read(make([]byte, 1)); err == nil && c.by != nil { // after the first row, the long step begins
			_ = cmd.Process.Signal(c.by)
		}
		_, _ = io.Copy(io.Discard, out)
		var ended *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != exitFailure || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s, %v: %v, %s", c.flags, c.by, err, errs)
		}
	}
}

// started starts a command, and returns its output and its errors.
func started(t *testing.T, cmd *exec.Cmd) (out io.ReadCloser, errs *bytes.Buffer) {
	t.Helper()
	errs = &bytes.Buffer{}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out, errs
}

// unreadVariable makes the test binary run rowlock with arguments, one per line.
const unreadVariable = "ROWLOCK_TEST_UNREAD"

// A command that restores a backup into a temporary store leaves none of it behind, neither when the output loses its reader, nor when the terminal
// is closed.
func TestNothingIsLeftOfABackup(t *testing.T) {
	if args := os.Getenv(unreadVariable); args != "" {
		os.Args = strings.Split(args, "\n")
		main()
	}
	file, temporary := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	store := sqlstore.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "rowlock.db"), Logger: slog.New(slog.DiscardHandler)}
	s, err := sqlstore.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.WriteFile(t.Context(), file, backup.Origin{Store: store, DataDir: t.TempDir(), Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	const endless = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
	for _, c := range []struct {
		args string
		by   os.Signal // nil: the reader closes the output
		code int
	}{
		{"sql\n--backup\n" + file + "\n--max-rows\n100000000\n-o\ncsv\n" + endless, nil, exitPipe},
		{"sql\n--backup\n" + file + "\n--max-rows\n100000000\n-o\ncsv\n" + endless, syscall.SIGHUP, exitFailure},
		{"verify\n" + file, nil, exitPipe},
	} {
		if c.by == syscall.SIGHUP && signal.Ignored(syscall.SIGHUP) {
			t.Log("SIGHUP is ignored here, as by nohup, and so by what is started")
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // only a failing test takes that long
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestNothingIsLeftOfABackup$")
		cmd.Env = append(os.Environ(), unreadVariable+"=rowlock\n"+c.args, "TMPDIR="+temporary)
		out, errs := started(t, cmd)
		if c.by != nil {
			_, _ = out.Read(make([]byte, 1))
			_ = cmd.Process.Signal(c.by)
			_ = cmd.Process.Signal(c.by) // a closed terminal sends it twice
			_, _ = io.Copy(io.Discard, out)
		}
		_ = out.Close()
		_ = cmd.Wait()
		left, err := os.ReadDir(temporary)
		if code := cmd.ProcessState.ExitCode(); err != nil || len(left) > 0 || code != c.code || c.by == nil && errs.Len() > 0 {
			t.Errorf("%q, %v: ended with %d, %s; there is %v, %v", c.args, c.by, code, errs, left, err)
		}
	}
}

// A function that does not end with its context is abandoned, and one that ends is waited for.
func TestEndsWith(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if done := false; !endsWith(ctx, func() { done = true }) || !done {
		t.Error("nobody waited")
	}
	over := make(chan struct{})
	defer close(over)
	cancel()
	if endsWith(ctx, func() { <-over }) {
		t.Error("it has ended")
	}
}
