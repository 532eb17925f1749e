package sqlstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// A database stands still for longer than all time limits (a suspended machine, a hanging disk), while two servers
// write: writes are refused or have an unknown outcome, reads at "any" go on, readiness reports it, and afterwards
// nothing is lost or duplicated.
func TestPostgresPaused(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	h, c := newBreakable(t)
	h.limits = shortLimits
	servers := []*Store{h.openPeer(t), h.openPeer(t)}
	first := commitSoon(ctx, t, servers[0], createMap(t, "first"))
	watch, err := servers[1].Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: first.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	loads := []*load{startLoad(t, servers[0]), startLoad(t, servers[1])}
	for _, l := range loads {
		l.more(ctx, t, 20)
	}
	if err := c.SignalAll(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i, l := range loads {
		l.fail(ctx, t, 8) // each of its four writers twice: also with a connection made during the pause
		if _, err := servers[i].Get(ctx, first.Key, resources.At{Match: resources.Any}); err != nil {
			t.Errorf("server %d: get at any: %v", i, err)
		}
		if err := servers[i].Ready(ctx); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("server %d: ready: %v", i, err)
		}
	}
	if err := c.SignalAll(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, l := range loads {
		l.more(ctx, t, 20)
		l.stop()
	}
	for _, s := range servers {
		settled(ctx, t, s)
	}
	loads[0].look(ctx, t, servers...)
	loads[1].check(ctx, t, watch, servers...)
}

// writerVariable makes the test binary a server that writes to the database at this URL.
const writerVariable = "ROWLOCK_TEST_WRITER"

// writeUntilTold is that server. It prints the result of each write, and ends with its input.
func writeUntilTold(url string) error {
	s, err := Open(context.Background(), Options{URL: url, limits: shortLimits, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	told := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(told)
	}()
	for n := 0; ; n++ {
		select {
		case <-told:
			fmt.Println("done")
			return s.Close()
		default:
		}
		key := configMap("default", "paused-"+strconv.Itoa(n))
		d := resources.Draft{Data: []byte(`{"metadata":{"resourceVersion":"0"}}`)}
		d.RevisionStart, d.RevisionEnd, _ = resources.RevisionSpan(d.Data)
		made, err := s.Commit(context.Background(), resources.Write{Op: resources.Create, Key: key, Draft: d})
		switch {
		case err == nil:
			fmt.Println("acknowledged", key.Name, made[0].Revision)
		case errors.Is(err, resources.ErrUnavailable):
			fmt.Println("refused", key.Name, 0)
		case !errors.Is(err, resources.ErrUnknownOutcome):
			return err
		}
	}
}

// A server that is stopped at any moment, also while it holds the counter, blocks the others only for a moment, and
// after it has continued nothing is lost or duplicated.
func TestServerPaused(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	h, c := newBreakable(t)
	h.schema = ""
	near := h.openPeer(t)
	hasten(t, near)
	start := commitSoon(ctx, t, near, createMap(t, "start"))
	watch, err := near.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()

	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"="+c.URL())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	revisions := map[string]int64{} // of acknowledged writes; 0 for refused ones
	listen := func(until string) bool {
		for said.Scan() {
			what, rest, _ := strings.Cut(said.Text(), " ")
			if name, revision, ok := strings.Cut(rest, " "); ok {
				if revisions[name], err = strconv.ParseInt(revision, 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			if what == until {
				return true
			}
		}
		return false
	}
	for i := range 12 {
		for range 3 + i {
			if !listen("acknowledged") {
				t.Fatal("the other server ended")
			}
		}
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		commitSoon(ctx, t, near, createMap(t, "meanwhile-"+strconv.Itoa(i)))
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	in.Close()
	if !listen("done") {
		t.Error("the other server ended")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	commitSoon(ctx, t, near, createMap(t, "end"))
	last := start.Revision
	for _, e := range collect(ctx, t, watch, "end") {
		if last++; e.Revision != last {
			t.Fatalf("event with revision %d after %d", e.Revision, last-1)
		}
		if said, ok := revisions[e.Object.Name]; ok && said != e.Revision {
			t.Errorf("%s has revision %d; it was said to have %d", e.Object.Name, e.Revision, said)
		}
		delete(revisions, e.Object.Name)
	}
	for name, revision := range revisions {
		if revision != 0 {
			t.Errorf("%s was acknowledged at %d and there is no event", name, revision)
		}
	}
}
