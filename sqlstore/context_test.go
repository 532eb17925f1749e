package sqlstore

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// An idle connection keeps no value of the request that used it.
func TestReadsKeepNothingOfTheirContext(t *testing.T) {
	stores := map[string]*Store{"SQLite": newSQLiteHarness(t).store, "Postgres": newPostgresHarness(t).store}
	for name, s := range stores {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(testContext(t), 30*time.Second) // an idle connection is closed after a minute
			defer cancel()
			made := mustCommit(t, s, createMap(t, "one"))[0]
			mustCommit(t, s, createMap(t, "two"))
			collected := make(chan struct{})
			read := func() {
				type request struct{ _ [4 << 10]byte }
				r := &request{}
				runtime.AddCleanup(r, func(c chan struct{}) { close(c) }, collected)
				type key struct{}
				ctx := context.WithValue(ctx, key{}, r)
				for _, at := range []resources.At{{}, {Match: resources.Exact, Revision: made.Revision}} {
					if _, err := s.Snapshot(ctx, "configmaps", at); err != nil {
						t.Fatal(err)
					}
				}
				if s.peers != nil { // as a read does when the cache is behind
					if err := s.peers.catchUp(ctx, s.peers.db, 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			read()
			for {
				runtime.GC()
				select {
				case <-collected:
					return
				case <-ctx.Done():
					t.Fatal("what a request knew lives on")
				default:
					runtime.Gosched()
				}
			}
		})
	}
}
