package sqlstore

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// lateAnswer is a database whose pages arrive late: after meanwhile.
type lateAnswer struct {
	asker
	rows      int // of a page at most
	meanwhile func(*page)
}

func (l lateAnswer) page(ctx context.Context, after int64, rows, bytes int) (*page, error) {
	p, err := l.asker.page(ctx, after, min(rows, l.rows), bytes)
	if err == nil {
		l.meanwhile(p)
	}
	return p, err
}

// A page of the log that arrives late, after the committer or another page has brought the cache further, brings what
// the cache does not have yet. No event is lost, repeated or out of order, and the cache does not count as astray.
func TestLatePages(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	s := h.openPeer(t)
	s.peers.stop() // it gets no notifications
	start := s.position.revision
	w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	made := 0
	foreign := func(n int) {
		t.Helper()
		for range n {
			mustCommit(t, h.store, createMap(t, strconv.Itoa(made)))
			made++
		}
	}
	own := func() {
		t.Helper()
		mustCommit(t, s, createMap(t, strconv.Itoa(made)))
		made++
	}
	earlier := func(rows int) {
		t.Helper()
		p, err := s.peers.db.page(ctx, s.position.revision, rows, pageBytes)
		if err != nil {
			t.Fatal(err)
		}
		p.cut(s.position.revision)
		s.applying.Lock()
		defer s.applying.Unlock()
		if err := s.take(p, s.position); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		rows      int
		meanwhile func()
		missing   int64 // changes that the cache does not have after the step
	}{
		"nothing happens":                       {pageRows, func() {}, 0},
		"others write":                          {pageRows, func() { foreign(3) }, 3},
		"the committer takes the same changes":  {pageRows, own, 0},
		"and more":                              {pageRows, func() { foreign(2); own() }, 0},
		"and others write again":                {pageRows, func() { own(); foreign(2) }, 2},
		"the page is in part behind the cache":  {5, func() { earlier(3) }, 4},
		"the page is all behind the cache":      {3, func() { earlier(7) }, 2},
		"a part of the log, all of it known":    {3, own, 0},
		"the committer alone brings more by it": {pageRows, func() { own(); own() }, 0},
	} {
		foreign(8)
		late := lateAnswer{s.peers.db, c.rows, func(*page) { c.meanwhile() }}
		if _, err := s.peers.step(ctx, late, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if has, all := s.position.revision, start+int64(made); all-has != c.missing {
			t.Errorf("%s: the cache has %d of %d, want %d less", name, has, all, c.missing)
		}
		if err := s.peers.catchUp(ctx, s.peers.db, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.peers.healing.Load() {
			t.Errorf("%s: the cache is to be loaded again", name)
		}
	}
	got := follow(ctx, t, w, start+int64(made))
	for i, revision := range got {
		if revision != start+1+int64(i) {
			t.Fatalf("event %d has the revision %d: %v", i, revision, got)
		}
	}
	if len(got) != made {
		t.Errorf("%d events of %d", len(got), made)
	}
}

// A commit does not wait for a server's own read of the log, which may wait for a connection for long: it would hold
// the counter meanwhile, for which all servers wait.
func TestCommitDoesNotWaitForAPage(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	s := h.openPeer(t)
	s.peers.stop()
	mustCommit(t, h.store, createMap(t, "foreign"))
	reads, read := make(chan struct{}), make(chan struct{})
	late := lateAnswer{s.peers.db, pageRows, func(*page) { close(reads); <-read }}
	stepped := make(chan error)
	go func() {
		_, err := s.peers.step(ctx, late, 0)
		stepped <- err
	}()
	<-reads
	short, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	made, err := s.Commit(short, createMap(t, "own"))
	close(read)
	if err != nil {
		t.Fatalf("a commit while a page is read: %v", err)
	}
	if err := <-stepped; err != nil {
		t.Error(err)
	}
	if s.position.revision != made[0].Revision {
		t.Errorf("at %d, want %d", s.position.revision, made[0].Revision)
	}
}

// A page that was read before the cache was loaded again, perhaps from the primary that was replaced, changes nothing.
func TestPageFromBeforeTheJump(t *testing.T) {
	ctx := testContext(t)
	s := newPostgresHarness(t).store
	before := mustCommit(t, s, createMap(t, "a"), createMap(t, "b"))[1].Revision
	jumps := sync.OnceFunc(func() {
		if err := s.peers.db.run("UPDATE meta SET origin = 'elsewhere'").scan(); err != nil {
			t.Error(err)
		}
		if _, err := s.janitor.task(s.peers.heal); err != nil {
			t.Error(err)
		}
	})
	late := lateAnswer{s.peers.db, pageRows, func(p *page) {
		if p.revision > before {
			t.Errorf("the page is of %d, the jump came after %d", p.revision, before)
		}
		p.origin, p.actual = "the old primary", "the old primary"
		p.historyBytes = 1 << 40
		jumps()
	}}
	if _, err := s.peers.step(ctx, late, 0); err != nil {
		t.Error(err)
	}
	s.applying.Lock()
	at := s.position.revision
	s.applying.Unlock()
	known := s.db.origin.name.Load()
	if at <= before || known != nil && *known == "the old primary" || s.historyBytes.Load() == 1<<40 {
		t.Errorf("at %d after %d, origin %v, %d bytes of history", at, before, known, s.historyBytes.Load())
	}
	mustCommit(t, s, createMap(t, "c"))
	if _, err := s.db.history(ctx, historyQuery{resource: "configmaps", after: at, upTo: at + 1, limit: 9}); err != nil {
		t.Errorf("history: %v", err)
	}
}

// While two servers write and are read at "most recent", each read sees what was acknowledged before it, and watches
// on both get every event once and in order.
func TestReadsBesideCommitsOnTwoServers(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	servers := []*Store{h.store, h.openPeer(t)}
	start := h.store.position.revision
	const writers, rounds, readers = 3, 40, 4
	last := start + 2*writers*rounds
	var acknowledged atomic.Int64
	var stopped atomic.Bool
	var writing, others sync.WaitGroup
	for i, s := range servers {
		w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
		if err != nil {
			t.Fatal(err)
		}
		others.Go(func() {
			defer w.Close()
			got := follow(ctx, t, w, last)
			for n, revision := range got {
				if revision != start+1+int64(n) {
					t.Errorf("server %d: event %d has the revision %d", i, n, revision)
					return
				}
			}
			if len(got) != 2*writers*rounds {
				t.Errorf("server %d: %d events", i, len(got))
			}
		})
		for range readers {
			others.Go(func() {
				for !stopped.Load() {
					least := acknowledged.Load()
					snap, err := s.Snapshot(ctx, "configmaps", resources.At{})
					if err != nil {
						t.Errorf("read: %v", err)
						return
					}
					if snap.Revision() < least || int64(snap.Count("", "")) != snap.Revision()-start {
						t.Errorf("server %d: %d objects at %d, %d was acknowledged before", i, snap.Count("", ""), snap.Revision(), least)
						return
					}
				}
			})
		}
		for n := range writers {
			writing.Go(func() {
				for round := range rounds {
					made, err := s.Commit(ctx, createMap(t, strconv.Itoa(i)+"-"+strconv.Itoa(n)+"-"+strconv.Itoa(round)))
					if err != nil {
						t.Errorf("commit: %v", err)
						return
					}
					for known := acknowledged.Load(); known < made[0].Revision && !acknowledged.CompareAndSwap(known, made[0].Revision); {
						known = acknowledged.Load()
					}
				}
			})
		}
	}
	writing.Wait()
	stopped.Store(true)
	others.Wait()
}

// A collection that is created while the cache is loaded again begins where all others do. Otherwise a watch of its type
// would pass over the changes between the two loads, which may be lost, instead of ending with an ExpiredError.
func TestCollectionsCreatedBesideAReload(t *testing.T) {
	s := newPostgresHarness(t).store
	holdCommitter(t, s)                        // nothing else changes the cache
	s.options.Packed = make([]string, 100_000) // so that it takes long to create a collection
	for round := range 10 {
		if err := s.peers.db.run("UPDATE meta SET origin = 'elsewhere'").scan(); err != nil {
			t.Fatal(err)
		}
		if jumped, err := s.peers.db.settle(s.position); err != nil || !jumped {
			t.Fatalf("the counter jumped: %t, %v", jumped, err)
		}
		var creating sync.WaitGroup
		var done atomic.Bool
		for i := range 4 {
			creating.Go(func() {
				for n := 0; !done.Load(); n++ {
					s.collection(strconv.Itoa(round) + "-" + strconv.Itoa(i) + "-" + strconv.Itoa(n))
				}
			})
		}
		s.applying.Lock()
		err := s.reload(t.Context())
		s.applying.Unlock()
		done.Store(true)
		creating.Wait()
		if err != nil {
			t.Fatal(err)
		}
		s.collections.Range(func(resource, value any) bool {
			c := value.(*collection)
			c.mu.Lock()
			defer c.mu.Unlock()
			if last := c.tree.Load().last; c.logStart != s.position.revision || last != c.logStart {
				t.Errorf("%s begins at %d, and its tree at %d; the cache was loaded at %d", resource, c.logStart, last, s.position.revision)
			}
			return true
		})
		if t.Failed() {
			return
		}
	}
}
