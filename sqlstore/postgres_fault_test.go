package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// newCluster starts a Postgres for the test alone.
func newCluster(t *testing.T) *pgtest.Cluster {
	t.Helper()
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newBreakable is a harness on a cluster of its own.
func newBreakable(t *testing.T) (*postgresHarness, *pgtest.Cluster) {
	t.Helper()
	c := newCluster(t)
	h := newPostgresHarnessAt(t, c.URL())
	return h, c
}

func admin(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// load writes to servers until it is stopped. Acknowledged writes must be there, refused ones must not, and the outcome
// of the others is unknown.
type load struct {
	wg                    sync.WaitGroup
	stopped               atomic.Bool
	acknowledged, refused sync.Map // by name
	count, failed         atomic.Int64
}

var loads atomic.Int64

func startLoad(t *testing.T, servers ...*Store) *load {
	l := &load{}
	number := loads.Add(1)
	for i, s := range servers {
		for worker := range 4 {
			l.wg.Go(func() {
				for n := 0; !l.stopped.Load(); n++ {
					name := fmt.Sprintf("load-%d-%d-%d-%d", number, i, worker, n)
					_, err := s.Commit(context.Background(), createMap(t, name))
					switch {
					case err == nil:
						l.acknowledged.Store(name, true)
						l.count.Add(1)
					case errors.Is(err, resources.ErrUnavailable):
						l.refused.Store(name, true)
						l.failed.Add(1)
					case errors.Is(err, resources.ErrUnknownOutcome):
						l.failed.Add(1)
					default:
						t.Errorf("commit: %v", err)
					}
				}
			})
		}
	}
	return l
}

// more waits for so many further acknowledged writes.
func (l *load) more(ctx context.Context, t *testing.T, n int64) {
	t.Helper()
	await(ctx, t, &l.count, n)
}

// fail waits for so many further failed writes.
func (l *load) fail(ctx context.Context, t *testing.T, n int64) {
	t.Helper()
	await(ctx, t, &l.failed, n)
}

func await(ctx context.Context, t *testing.T, count *atomic.Int64, more int64) {
	t.Helper()
	for want := count.Load() + more; count.Load() < want; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("writes do not go on")
		}
	}
}

func (l *load) stop() {
	l.stopped.Store(true)
	l.wg.Wait()
}

// look checks the writes on every server.
func (l *load) look(ctx context.Context, t *testing.T, servers ...*Store) {
	t.Helper()
	for i, s := range servers {
		snap, err := s.Snapshot(ctx, "configmaps", resources.At{})
		if err != nil {
			t.Fatalf("server %d: %v", i, err)
		}
		l.acknowledged.Range(func(name, _ any) bool {
			if snap.Get("default", name.(string)) == nil {
				t.Errorf("server %d: %s was acknowledged and is not there", i, name)
			}
			return true
		})
		l.refused.Range(func(name, _ any) bool {
			if snap.Get("default", name.(string)) != nil {
				t.Errorf("server %d: %s was refused and is there", i, name)
			}
			return true
		})
		if err := s.Ready(ctx); err != nil {
			t.Errorf("server %d: %v", i, err)
		}
	}
}

// check checks every server, and a watch that was open all the time.
func (l *load) check(ctx context.Context, t *testing.T, watch resources.Watch, servers ...*Store) {
	t.Helper()
	l.look(ctx, t, servers...)
	commitSoon(ctx, t, servers[0], createMap(t, "end"))
	last := int64(0)
	for _, e := range collect(ctx, t, watch, "end") {
		if last != 0 && e.Revision != last+1 {
			t.Fatalf("the watch got %d after %d", e.Revision, last)
		}
		last = e.Revision
	}
}

// While Postgres restarts, also after a crash, writes fail as unavailable or wait, reads at "any" go on, and everything
// recovers without a restart of the servers. No acknowledged write and no event is lost.
func TestPostgresRestarts(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	servers := []*Store{h.store, h.openPeer(t)}
	first := mustCommit(t, h.store, createMap(t, "first"))[0]
	watch, err := servers[1].Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: first.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	l := startLoad(t, servers...)
	for name, end := range map[string]func() error{
		"restart":   func() error { return c.Signal(syscall.SIGINT) },
		"immediate": func() error { return c.Signal(syscall.SIGQUIT) },
		"kill":      c.Kill,
	} {
		l.more(ctx, t, 50)
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.Wait()
		for _, s := range servers {
			if _, err := s.Get(ctx, first.Key, resources.At{Match: resources.Any}); err != nil {
				t.Errorf("%s: get at any: %v", name, err)
			}
			if _, err := s.Get(ctx, first.Key, resources.At{}); !errors.Is(err, resources.ErrUnavailable) {
				t.Errorf("%s: get at most recent: %v, want ErrUnavailable", name, err)
			}
			if err := s.Ready(ctx); !errors.Is(err, resources.ErrUnavailable) {
				t.Errorf("%s: ready: %v, want ErrUnavailable", name, err)
			}
		}
		if err := c.Start(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	l.more(ctx, t, 50)
	l.stop()
	l.check(ctx, t, watch, servers...)
}

// Terminating connections at any moment costs nothing but time.
func TestPostgresTerminatesBackends(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	servers := []*Store{h.store, h.openPeer(t)}
	watch, err := servers[1].Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: h.store.revisions.current.Load()})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	conn := admin(t, c.URL())
	l := startLoad(t, servers...)
	for range 40 {
		l.more(ctx, t, 10)
		if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'rowlock' AND random() < 0.5`); err != nil {
			t.Fatal(err)
		}
	}
	l.more(ctx, t, 10)
	l.stop()
	l.check(ctx, t, watch, servers...)
}

// While a database hangs, reads at "any" go on and callers can give up; afterwards everything works again.
func TestPostgresHangs(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	made := mustCommit(t, h.store, createMap(t, "first"))[0]
	if err := c.SignalAll(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := h.store.Commit(short, createMap(t, "second")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("commit: %v", err)
	}
	if _, err := h.store.Get(short, made.Key, resources.At{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get at most recent: %v", err)
	}
	if _, err := h.store.Get(ctx, made.Key, resources.At{Match: resources.Any}); err != nil {
		t.Errorf("get at any: %v", err)
	}
	if err := c.SignalAll(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.store, createMap(t, "third"))
	if _, err := h.store.Get(ctx, made.Key, resources.At{}); err != nil {
		t.Errorf("get at most recent: %v", err)
	}
}

// lossyConn loses the database's answer to COMMIT, or the COMMIT itself.
type lossyConn struct {
	net.Conn
	plan *lossPlan
	lost bool
}

type lossPlan struct{ loseAnswer, loseQuestion atomic.Bool }

func (c *lossyConn) Write(b []byte) (int, error) {
	// The statements of a batch are prepared already; it is recognised by its data.
	if strings.Contains(string(b), "configmaps") {
		if c.plan.loseQuestion.CompareAndSwap(true, false) {
			c.lost = true
			return len(b), nil
		}
		if c.plan.loseAnswer.CompareAndSwap(true, false) {
			n, err := c.Conn.Write(b)
			if err == nil {
				_, err = c.Conn.Read(make([]byte, 1<<16)) // it was answered
			}
			c.lost = true
			return n, err
		}
	}
	return c.Conn.Write(b)
}

func (c *lossyConn) Read(b []byte) (int, error) {
	if c.lost {
		c.Close()
	}
	return c.Conn.Read(b)
}

// After a connection is lost at COMMIT, the batch is looked up before any request is answered.
func TestLostCommit(t *testing.T) {
	h := newPostgresHarness(t)
	plan := &lossPlan{}
	d := h.store.db.driver.(*postgresDriver)
	config := d.writes.Config()
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &lossyConn{Conn: conn, plan: plan}, err
	}
	if _, err := h.store.janitor.task(func() (err error) {
		d.writes.Close()
		d.writes, err = d.openPool(context.Background(), config, 2) // the store closes it
		return err
	}); err != nil {
		t.Fatal(err)
	}
	w, err := h.store.Watch(testContext(t), resources.WatchOptions{Resource: "configmaps", After: h.store.revisions.current.Load()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range 5 {
		mustCommit(t, h.store, createMap(t, "before"+strconv.Itoa(i)))
		plan.loseAnswer.Store(true)
		mustCommit(t, h.store, createMap(t, "answer"+strconv.Itoa(i)))
		plan.loseQuestion.Store(true)
		if _, err := h.store.Commit(context.Background(), createMap(t, "question"+strconv.Itoa(i))); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("a commit that was lost on the way: %v, want ErrUnavailable", err)
		}
		if plan.loseAnswer.Load() || plan.loseQuestion.Load() {
			t.Fatal("nothing was lost")
		}
	}
	mustCommit(t, h.store, createMap(t, "end"))
	if events := collect(testContext(t), t, w, "end"); len(events) != 11 {
		t.Errorf("%d events, want 11", len(events))
	}
}

// After a restore that lost commits no revision is assigned twice: the counter jumps ahead, earlier watches end with
// ExpiredError, and every server shows the restored state.
func TestCounterGoesBack(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	servers := []*Store{h.store, h.openPeer(t)}
	conn := admin(t, h.url+"&search_path="+strings.ReplaceAll(`"`+h.schema+`"`, " ", "%20"))
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	kept := mustCommit(t, h.store, createMap(t, "kept"))[0]
	exec(`CREATE TABLE old_meta AS TABLE meta; CREATE TABLE old_objects AS TABLE objects; CREATE TABLE old_changes AS TABLE changes`)
	var lost *resources.Object
	for i := range 5 {
		lost = mustCommit(t, h.store, createMap(t, "lost"+strconv.Itoa(i)))[0]
	}
	var watches []resources.Watch
	for _, s := range servers {
		if _, err := s.Get(ctx, lost.Key, resources.At{}); err != nil {
			t.Fatal(err)
		}
		w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: lost.Revision})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watches = append(watches, w)
	}
	exec(`BEGIN; TRUNCATE meta, objects, changes; INSERT INTO meta SELECT * FROM old_meta;
		INSERT INTO objects SELECT * FROM old_objects; INSERT INTO changes SELECT * FROM old_changes; COMMIT`)
	next := mustCommit(t, servers[1], createMap(t, "next"))[0]
	if next.Revision <= lost.Revision {
		t.Errorf("revision %d was given after %d", next.Revision, lost.Revision)
	}
	for i, s := range servers {
		snap, err := s.Snapshot(ctx, "configmaps", resources.At{})
		for errors.Is(err, resources.ErrUnavailable) && ctx.Err() == nil { // while the cache is loaded again
			snap, err = s.Snapshot(ctx, "configmaps", resources.At{})
		}
		if err != nil || snap.Count("", "") != 2 || snap.Get("default", kept.Name) == nil || snap.Get("default", "next") == nil {
			t.Errorf("server %d does not show what was restored: %v", i, err)
		}
		var expired *resources.ExpiredError
		events, _, err := watches[i].Next(ctx, 10)
		for err == nil && len(events) == 0 { // a watch learns of a reload a moment after reads see it
			select {
			case <-watches[i].Ready():
				events, _, err = watches[i].Next(ctx, 10)
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if !errors.As(err, &expired) {
			t.Errorf("server %d: the watch of before: %d events, %v", i, len(events), err)
		}
		if _, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: kept.Revision}); !errors.As(err, &expired) {
			t.Errorf("server %d: a watch from before: %v", i, err)
		}
	}
}
