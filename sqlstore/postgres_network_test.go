package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// shortLimits are short time limits for tests in which the database will not answer. On a slow machine, an operation
// that should succeed may fail under them and has to be repeated.
var shortLimits = limits{shrink: time.Minute, rest: time.Minute, step: 1500 * time.Millisecond, read: time.Second, rows: time.Second, lookUp: 1500 * time.Millisecond,
	lock: time.Second, idle: time.Second, ping: 300 * time.Millisecond, poll: time.Second}

// cutOff returns a server behind a network that can lose everything, and one with a separate path to the same database.
func cutOff(t *testing.T) (network *pgtest.Proxy, far, near *Store) {
	t.Helper()
	return cutOffWith(t, shortLimits)
}

// cutOffWith is cutOff with time limits of the first server.
func cutOffWith(t *testing.T, l limits) (network *pgtest.Proxy, far, near *Store) {
	t.Helper()
	h, c := newBreakable(t)
	network, err := pgtest.NewProxy(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	near = h.store
	h.url, h.limits = network.URL(), l
	return network, h.openPeer(t), near
}

// When the connections of the writer, the readers and the listener are lost silently, a server that is cut off refuses
// requests whose answer it cannot know, and goes on by itself when the network does. Other servers go on meanwhile.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	network, far, near := cutOff(t)
	first := mustCommit(t, near, createMap(t, "first"))[0]
	watch, err := far.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: first.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	l := startLoad(t, far)
	for round := range 2 {
		l.more(ctx, t, 20)
		network.Lose()
		for i := range 10 { // whatever lock the other one holds, it ends soon
			commitSoon(ctx, t, near, createMap(t, fmt.Sprintf("near-%d-%d", round, i)))
		}
		if _, err := far.Get(ctx, first.Key, resources.At{Match: resources.Any}); err != nil {
			t.Errorf("get at any: %v", err)
		}
		if _, err := far.Get(ctx, first.Key, resources.At{}); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("get at most recent: %v, want ErrUnavailable", err)
		}
		if err := far.Ready(ctx); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("ready: %v, want ErrUnavailable", err)
		}
		network.Recover()
	}
	l.more(ctx, t, 20)
	l.stop()
	if got := settled(ctx, t, far).Count("", ""); got < 21+int(l.count.Load()) {
		t.Errorf("%d objects, at least %d were made", got, 21+l.count.Load())
	}
	l.check(ctx, t, watch, near, far)
}

// A watch goes on after its server's connections were lost while nothing happened, though no notification comes.
func TestHalfOpenListener(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	network, far, near := cutOff(t)
	watch, err := far.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: near.position.revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	network.Lose()
	network.Recover()
	mustCommit(t, near, createMap(t, "end"))
	collect(ctx, t, watch, "end")
}

// A server whose listener's connection was lost silently reads the log through another one, however long the first may take to answer: what others
// revoke must not count here until the connection is given up.
func TestSilentListenerIsPassedBy(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	l := usualLimits
	l.read, l.ping, l.unheard = 30*time.Second, 300*time.Millisecond, time.Second
	network, far, near := cutOffWith(t, l)
	sees(t, far, 2) // else it waits for limits.poll
	watch, err := far.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: near.position.revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	network.Lose()
	network.Recover()
	given, end := context.WithTimeout(ctx, l.read) // when the listener gives its connection up
	defer end()
	mustCommit(t, near, createMap(t, "end"))
	collect(given, t, watch, "end")
}

// A page of the log comes over a new connection where that of the pool was lost: all that read the log wait for it.
func TestPagePastALostConnection(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	l := usualLimits
	l.read, l.ping, l.poll, l.unheard = 30*time.Second, 300*time.Millisecond, time.Hour, time.Hour
	network, s, _ := cutOffWith(t, l)
	if _, err := s.peers.page(ctx, s.peers.db, 0); err != nil { // leaves a connection
		t.Fatal(err)
	}
	network.Lose()
	network.Recover()
	found, err := s.peers.page(ctx, s.peers.db, 0)
	if err != nil || found.revision == 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// A page that is read through the pool says when it arrives, so that it is not asked for again.
func TestPageThatArrives(t *testing.T) {
	t.Parallel()
	s := newPostgresHarness(t).store
	answers := false
	ctx := context.WithValue(testContext(t), answering{}, func() { answers = true })
	if _, err := s.peers.db.page(ctx, 0, 1, 1<<20); err != nil || !answers {
		t.Errorf("%v, answers: %t", err, answers)
	}
}

// A page of the log takes limits.read at most, and not as long for each connection that may be dead.
func TestPageOfASilentDatabase(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	network, far, _ := cutOff(t)
	db := far.peers.db
	if _, err := db.page(ctx, 0, 1, 1<<20); err != nil { // leaves a connection
		t.Fatal(err)
	}
	network.Lose()
	defer network.Recover()
	asked := func() int64 { s := db.pool.Stat(); return s.AcquireCount() + s.CanceledAcquireCount() }
	before := asked()
	if _, err := db.page(ctx, 0, 1, 1<<20); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if again := asked() - before; again >= postgresReaders {
		t.Errorf("the pool was asked %d times", again)
	}
}

// A server that is lost in the middle of a statement holds the counter, and the database waits for the rest of the
// statement: it does not count as idle. The other servers end its connection.
func TestLostInTheMiddleOfAStatement(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	network, far, near := cutOff(t)
	hasten(t, near)
	commitSoon(ctx, t, far, createMap(t, "first"))
	blob := createBlob(t, "half")
	network.LoseAfter(int64(len(blob.Draft.Data)))
	answered := make(chan error)
	go func() {
		_, err := far.Commit(ctx, blob)
		answered <- err
	}()
	err := <-answered
	if err == nil {
		t.Error("a batch that was cut off was acknowledged")
	}
	network.Lose()
	commitSoon(ctx, t, near, createMap(t, "second"))
	network.Recover()
	commitSoon(ctx, t, far, createMap(t, "third"))
	if snap := settled(context.Background(), t, far); snap.Count("", "") != 3 || snap.Get("default", "half") != nil {
		t.Errorf("%d objects", snap.Count("", ""))
	}
}

// If the database does not answer, lookElsewhere releases the lock of those that read the log soon, however long a page may take.
func TestLookElsewhereIsBrief(t *testing.T) {
	t.Parallel()
	l := shortLimits
	l.read = 20 * time.Second
	network, s, _ := cutOffWith(t, l)
	network.Lose()
	defer network.Recover()
	began := time.Now()
	s.peers.listen.lookElsewhere()
	if took := time.Since(began); took > l.read/2 {
		t.Errorf("it took %v", took)
	}
}
