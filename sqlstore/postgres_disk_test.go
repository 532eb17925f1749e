package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// createBlob is a write of data that do not compress.
func createBlob(t *testing.T, name string) resources.Write {
	t.Helper()
	w := createMap(t, name)
	noise := make([]byte, 40<<10)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	w.Draft.Data = fmt.Appendf(w.Draft.Data[:len(w.Draft.Data)-1], `,"noise":"%x"}`, noise)
	return w
}

// When the database's disk is full, writes fail as unavailable and leave nothing, reads go on, and servers stay ready;
// when there is room again, everything goes on without a restart.
func TestPostgresDiskFull(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c, err := pgtest.Options{WALSegment: 1}.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	h := newPostgresHarnessAt(t, c.URL())
	servers := []*Store{h.store, h.openPeer(t)}
	last := mustCommit(t, h.store, createMap(t, "first"))[0]
	watch, err := servers[1].Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: last.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if err := c.LimitFiles(2 << 20); err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil; i++ {
		var made []*resources.Object
		if made, err = h.store.Commit(ctx, createBlob(t, fmt.Sprint(i))); err == nil {
			last = made[0]
		}
	}
	if !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("a write that finds no room: %v", err)
	}
	for i, s := range servers {
		if _, err := s.Commit(ctx, createBlob(t, "refused")); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("server %d: a write that finds no room: %v", i, err)
		}
		for range 2 {
			if err := s.probe(ctx); !errors.Is(err, resources.ErrFull) || !strings.Contains(err.Error(), "could not extend file") {
				t.Errorf("server %d: a commit without changes: %v", i, err)
			}
			if err := s.Ready(ctx); err != nil {
				t.Errorf("server %d: ready: %v", i, err)
			}
		}
		for _, match := range []resources.Match{resources.Any, resources.MostRecent} {
			if _, err := s.Get(ctx, last.Key, resources.At{Match: match}); err != nil {
				t.Errorf("server %d: get: %v", i, err)
			}
		}
		if snap, err := s.Snapshot(ctx, "configmaps", resources.At{}); err != nil || snap.Get("default", "refused") != nil {
			t.Errorf("server %d: list: %v", i, err)
		}
	}
	if err := c.LimitFiles(0); err != nil {
		t.Fatal(err)
	}
	for i, s := range servers {
		if err := s.Ready(context.Background()); err != nil {
			t.Errorf("server %d: ready: %v", i, err)
		}
	}
	if made := mustCommit(t, servers[1], createBlob(t, "end"))[0]; made.Revision != last.Revision+1 {
		t.Errorf("revision %d after %d: the failures left something", made.Revision, last.Revision)
	}
	events := collect(ctx, t, watch, "end")
	for i, e := range events {
		if want := last.Revision + 2 - int64(len(events)-i); e.Revision != want {
			t.Fatalf("event %d has revision %d, want %d", i, e.Revision, want)
		}
	}
}
