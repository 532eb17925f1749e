package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources"
)

// packing runs a test with stores on both databases that keep large ConfigMaps packed.
func packing(t *testing.T, test func(t *testing.T, s *Store, reopen func() *Store)) {
	open := func(t *testing.T, o Options) *Store {
		o.Packed = []string{"configmaps"}
		return mustOpen(t, o)
	}
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		h.close(t)
		h.store = open(t, h.options())
		test(t, h.store, func() *Store {
			h.close(t)
			h.store = open(t, h.options())
			return h.store
		})
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		h.close(t)
		h.store = open(t, h.options())
		test(t, h.store, func() *Store {
			h.close(t)
			h.store = open(t, h.options())
			return h.store
		})
	})
}

func largeMap(t testing.TB, op resources.Op, name string, from int64, bytes int) resources.Write {
	return resources.Write{Op: op, Key: configMap("default", name), From: from, Draft: draftOf(t, "default", name, bytes)}
}

func packAll(s *Store) { s.DefragmentHeap(true, func(int) bool { return true }) }

// Packed objects are read, listed, changed, expected and loaded like others.
func TestPackedObjectsAreThere(t *testing.T) {
	packing(t, func(t *testing.T, s *Store, reopen func() *Store) {
		ctx := context.Background()
		const n, size = 300, 2 * packWorth
		var writes []resources.Write
		for i := range n {
			writes = append(writes, largeMap(t, resources.Create, fmt.Sprintf("map-%05d", i), 0, size))
		}
		created := mustCommit(t, s, append(writes, createMap(t, "small"))...)
		first, second := created[0], created[1]
		before := contents(mustSnapshot(t, s, resources.At{}))
		packAll(s)
		if !s.Kept(first.Key).IsPacked() || s.Kept(created[n].Key).IsPacked() {
			t.Fatal("the large ones are packed, and the small one is not")
		}
		if diff := cmp.Diff(before, contents(mustSnapshot(t, s, resources.At{}))); diff != "" {
			t.Error(diff)
		}
		got, err := s.Get(ctx, first.Key, resources.At{})
		if err != nil || string(got.Data) != string(first.Data) || got.IsPacked() {
			t.Errorf("%v, %v", got, err)
		}
		var conflict *resources.ConflictError
		if _, err := s.Commit(ctx, largeMap(t, resources.Update, first.Name, 1<<40, size)); !errors.As(err, &conflict) || len(conflict.Current.Data) == 0 {
			t.Errorf("%v", err)
		}
		expect := resources.Write{Op: resources.Expect, Key: second.Key, From: second.Revision}
		mustCommit(t, s, expect, createMap(t, "expecting"))
		expect.From++
		var unexpected *resources.ExpectationError
		if _, err := s.Commit(ctx, expect, createMap(t, "in-vain")); !errors.As(err, &unexpected) || len(unexpected.Current.Data) == 0 {
			t.Errorf("%v", err)
		}
		old := s.revisions.current.Load()
		cursor, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: old})
		if err != nil {
			t.Fatal(err)
		}
		defer cursor.Close()
		mustCommit(t, s, largeMap(t, resources.Update, first.Name, first.Revision, size+100), resources.Write{Op: resources.Delete, Key: second.Key, From: second.Revision})
		for seen := 0; seen < 2; {
			events, _, err := cursor.Next(ctx, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if seen++; len(e.Object.Data) == 0 || string(e.Prev.Data) != before[e.Object.Path()][len(before[e.Object.Path()])-len(e.Prev.Data):] {
					t.Errorf("%v of %q after %q", e.Op, e.Object.Data, e.Prev.Data)
				}
			}
		}
		packAll(s)
		now := contents(mustSnapshot(t, s, resources.At{}))
		delete(before, second.Path())
		if past := contents(mustSnapshot(t, s, resources.At{Match: resources.Exact, Revision: old})); past[second.Path()] == "" || len(past) != len(now)+1 {
			t.Errorf("%d objects were there", len(past))
		}
		s = reopen()
		if diff := cmp.Diff(now, contents(mustSnapshot(t, s, resources.At{}))); diff != "" {
			t.Error(diff)
		}
		packAll(s)
		if !s.Kept(first.Key).IsPacked() {
			t.Error("what was loaded is not packed")
		}
	})
}

// While objects are packed, reads, changes and watches never see one without its bytes, and no change is undone.
func TestPackingBesideWriters(t *testing.T) {
	packing(t, func(t *testing.T, s *Store, _ func() *Store) {
		const writers, rounds = 3, 15
		ctx, fail := context.WithCancel(context.Background())
		defer fail()
		start := s.revisions.current.Load()
		var all sync.WaitGroup
		for n := range writers {
			all.Go(func() {
				name := fmt.Sprint("map-", n)
				defer func() {
					if t.Failed() {
						fail() // do not wait for the rest
					}
				}()
				created, err := s.Commit(ctx, largeMap(t, resources.Create, name, 0, 2*packWorth))
				if err != nil {
					t.Error(err)
					return
				}
				o := created[0]
				for i := range rounds {
					got, err := s.Get(ctx, o.Key, resources.At{Match: resources.MostRecent})
					if err != nil || got.Revision != o.Revision || string(got.Data) != string(o.Data) {
						t.Errorf("%v, %v, want revision %d", got, err, o.Revision)
						return
					}
					written, err := s.Commit(ctx, largeMap(t, resources.Update, name, o.Revision, 2*packWorth+10*i))
					if err != nil {
						t.Error(err)
						return
					}
					o = written[0]
				}
			})
		}
		cursor, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
		if err != nil {
			t.Fatal(err)
		}
		defer cursor.Close()
		done := make(chan struct{})
		all.Go(func() {
			defer close(done)
			for seen := 0; seen < writers*(rounds+1); {
				events, _, err := cursor.Next(ctx, 100)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range events {
					if seen++; len(e.Object.Data) < 2*packWorth-100 || e.Prev != nil && len(e.Prev.Data) < 2*packWorth-100 {
						t.Errorf("an event at %d without bytes", e.Revision)
					}
				}
			}
		})
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
				packAll(s)
			}
		}
		all.Wait()
	})
}

// Packed objects are put into slabs: an allocation for each would be rounded up by a tenth.
func TestPackedTogether(t *testing.T) {
	s, object := slab{size: packedSlabSize}, make([]byte, 9<<10)
	if n := testing.AllocsPerRun(100, func() { s.place(object) }); n > 0.1 {
		t.Errorf("%.2f allocations for an object", n)
	}
}
