package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// fill creates objects, in large transactions.
func fill(b *testing.B, s *Store, objects int) {
	b.Helper()
	fillWith(b, s, objects, draft(b, "default", "name"))
}

func fillWith(b *testing.B, s *Store, objects int, d resources.Draft) {
	b.Helper()
	for i := 0; i < objects; {
		var writes []resources.Write
		for ; i < objects && len(writes) < batchWrites; i++ {
			writes = append(writes, resources.Write{Op: resources.Create, Key: configMap("default", fmt.Sprintf("cm-%08d", i)), Draft: d})
		}
		if _, err := s.Commit(context.Background(), writes...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens a store with so many objects.
func BenchmarkOpen(b *testing.B) {
	for _, objects := range []int{0, 10000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			s := openBench(b)
			fill(b, s, objects)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for range b.N {
				again, err := Open(context.Background(), s.options)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := again.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkSnapshot takes snapshots of 10,000 objects: the present one, one of 100 changes ago, and a page of it.
func BenchmarkSnapshot(b *testing.B) {
	s := openBench(b)
	fill(b, s, 10000)
	past := s.revisions.current.Load()
	for i := range 100 {
		if _, err := s.Commit(context.Background(), resources.Write{Op: resources.Create,
			Key: configMap("default", fmt.Sprintf("late-%08d", i)), Draft: draft(b, "default", "late")}); err != nil {
			b.Fatal(err)
		}
	}
	take := func(b *testing.B, at resources.At) resources.Snapshot {
		snap, err := s.Snapshot(context.Background(), "configmaps", at)
		if err != nil {
			b.Fatal(err)
		}
		return snap
	}
	b.Run("present", func(b *testing.B) {
		for range b.N {
			take(b, resources.At{})
		}
	})
	b.Run("past", func(b *testing.B) {
		for i := range b.N { // another one each time, so that it is not cached
			take(b, resources.At{Match: resources.Exact, Revision: past - int64(i%1000)})
		}
	})
	b.Run("page", func(b *testing.B) {
		for range b.N {
			snap := take(b, resources.At{Match: resources.Exact, Revision: past})
			n := 0
			snap.Ascend("default", "default/cm-00005000", func(*resources.Object) bool { n++; return n < 500 })
			if snap.Count("default", "default/cm-00005000") != 4999 {
				b.Fatal("wrong count")
			}
		}
	})
	b.Run("ascend", func(b *testing.B) {
		for range b.N {
			n := 0
			take(b, resources.At{}).Ascend("", "", func(*resources.Object) bool { n++; return true })
			if n != 10100 {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkWatch commits changes that many watchers follow. One operation is one change delivered to all.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			s := openBench(b)
			start := s.revisions.current.Load()
			var wg sync.WaitGroup
			for range watchers {
				w, err := s.Watch(context.Background(), resources.WatchOptions{Resource: "configmaps", After: start})
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					defer w.Close()
					for n := 0; n < b.N; {
						<-w.Ready()
						events, _, err := w.Next(context.Background(), 1000)
						if err != nil {
							b.Error(err)
							return
						}
						n += len(events)
					}
				})
			}
			d := draft(b, "default", "name")
			measured(b, 16, func(i int64) error {
				_, err := s.Commit(context.Background(), resources.Write{Op: resources.Create,
					Key: configMap("default", fmt.Sprintf("cm-%08d", i)), Draft: d})
				return err
			})
			wg.Wait()
		})
	}
}

// BenchmarkHistory reads changes back from the database.
func BenchmarkHistory(b *testing.B) {
	s := openBench(b)
	fill(b, s, 10000)
	b.ResetTimer()
	for range b.N {
		for from := int64(1); from < s.revisions.current.Load(); {
			page, err := s.db.history(context.Background(), historyQuery{resource: "configmaps", after: from,
				upTo: s.revisions.current.Load(), limit: historyPage})
			if err != nil {
				b.Fatal(err)
			}
			from = page.upTo
		}
	}
	b.ReportMetric(float64(b.N)*10000/b.Elapsed().Seconds(), "events/s")
}
