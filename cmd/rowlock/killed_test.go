package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/sqlstore/backup"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// killedVariable makes the test binary run rowlock with arguments, one per line: only a process can be killed.
const killedVariable = "ROWLOCK_TEST_KILLED"

// killed is the error of a process that was killed.
const killed = "signal: killed"

// startProcess starts rowlock as a process.
func startProcess(t *testing.T, args ...string) (cmd *exec.Cmd, out io.Reader) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledRestore$")
	cmd.Env = append(os.Environ(), killedVariable+"="+strings.Join(args, "\n"))
	out, _ = started(t, cmd)
	return cmd, out
}

// A restore whose process is killed once it has begun to write leaves what no server starts on, and can be run again.
func TestKilledRestore(t *testing.T) {
	if args := os.Getenv(killedVariable); args != "" {
		os.Args = append([]string{"rowlock"}, strings.Split(args, "\n")...)
		main()
	}
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	p := start(t, "--data-dir", dir)
	client := p.client(t)
	for i := range 100 {
		send(t, client, "POST", "/api/v1/namespaces/default/configmaps", fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"v":%q}}`, i, strings.Repeat(fmt.Sprint(i, " "), 50000)))
	}
	before := madeConfigMaps(t, client)
	p.end()
	runs(t, "backup", file, "--data-dir", dir)
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := killRestore(t, file, empty)
		if code, _, stderr := command(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, place.args()...)...); code != exitFailure || !strings.Contains(stderr, "a restore of a backup was begun here") {
			t.Errorf("a server ended with %d: %s", code, stderr)
		}
		runs(t, append([]string{"restore", file}, place.args()...)...)
		p := start(t, place.args()...)
		defer p.end()
		if diff := cmp.Diff(before, madeConfigMaps(t, p.client(t))); diff != "" {
			t.Errorf("-before, +restored:\n%s", diff)
		}
	})
}

// killRestore restores a backup to an empty place, kills the process while it writes, and returns the place. The process may end first; then
// killRestore tries again at another place.
func killRestore(t *testing.T, file string, empty places) storePlace {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for range 10 {
		place := empty(t)
		cmd, _ := startProcess(t, append([]string{"restore", file}, place.args()...)...)
		var err error
		ended := make(chan struct{})
		go func() {
			err = cmd.Wait()
			close(ended)
		}()
		writes := func() bool {
			_, err := os.Lstat(filepath.Join(place.dir, backup.Unfinished))
			return err == nil
		}
		for over := false; !over && !writes(); {
			select {
			case <-ended:
				over = true
			case <-again.C:
			}
		}
		_ = cmd.Process.Kill()
		<-ended
		if err != nil && err.Error() != killed {
			t.Fatalf("the restore ended by itself: %v: %s", err, cmd.Stderr)
		}
		if writes() {
			return place
		}
	}
	t.Fatal("no restore was seen to write before it ended")
	return storePlace{}
}

// A move whose process is killed while it follows, and again while it waits for the last writer before the switch, goes on when it is run again. The
// source takes writes until then.
func TestKilledMigrate(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := empty(t)
		to := "sqlite://" + filepath.Join(t.TempDir(), "to.db")
		p := start(t, place.args()...)
		client := p.client(t)
		const path = "/api/v1/namespaces/default/configmaps"
		send(t, client, "POST", path, `{"metadata":{"name":"a"},"data":{"v":"0"}}`)
		url, schema := place.database()
		args := []string{"migrate", "--hold", "1m", "--from", url, "--from-schema", schema, "--to", to}
		write := func(v string) (revision int64) {
			t.Helper()
			return gjson.Get(send(t, client, "PATCH", path+"/a", `{"data":{"v":"`+v+`"}}`), "metadata.resourceVersion").Int()
		}

		m := startMove(t, append(args, "--follow")...)
		m.untilCopied(t, 1)
		m.untilCopied(t, write("1"))
		m.kill(t)
		last := write("2")
		release, err := sqltest.HoldWriters(t.Context(), url, schema)
		if err != nil {
			t.Fatal(err)
		}
		m = startMove(t, args...)
		m.untilCopied(t, last)
		if schema != "" { // SQLite does not say who waits: there the process may also be about to
			until(t, "the move waits for the last writer", func() bool {
				waiting, err := sqltest.Ask(t.Context(), url, schema, `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = 'SELECT FROM meta FOR UPDATE'`)
				return err == nil && len(waiting) == 1
			})
		}
		m.kill(t)
		if err := release(); err != nil {
			t.Fatal(err)
		}
		write("3")
		if _, err := os.Lstat(strings.TrimPrefix(to, "sqlite://")); !os.IsNotExist(err) {
			t.Errorf("the target is a store: %v", err)
		}
		before := madeConfigMaps(t, client)
		if said := runs(t, args...); !strings.Contains(said, "The store has moved, at revision") {
			t.Errorf("rowlock migrate said:\n%s", said)
		}
		p.end()
		p = start(t, "--data-dir", place.dir, "--datastore", to)
		defer p.end()
		if diff := cmp.Diff(before, madeConfigMaps(t, p.client(t))); diff != "" {
			t.Errorf("-before, +moved:\n%s", diff)
		}
	})
}

// movingProcess is a process of rowlock migrate.
type movingProcess struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startMove(t *testing.T, args ...string) *movingProcess {
	t.Helper()
	cmd, out := startProcess(t, args...)
	return &movingProcess{cmd, bufio.NewScanner(out)}
}

// untilCopied returns when the process has reported that it copied the objects of a revision, or of a later one.
func (m *movingProcess) untilCopied(t *testing.T, revision int64) {
	t.Helper()
	for m.lines.Scan() {
		var copied int64
		if _, err := fmt.Sscanf(m.lines.Text(), "revision %d, objects: ", &copied); err == nil && copied >= revision {
			return
		}
	}
	t.Fatalf("it ended before it had copied revision %d: %v: %s", revision, m.cmd.Wait(), m.cmd.Stderr)
}

func (m *movingProcess) kill(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Wait(); err == nil || err.Error() != killed {
		t.Errorf("it ended by itself: %v", err)
	}
}
