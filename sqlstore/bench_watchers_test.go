package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// benchWatchers are watchers of one type, each in a goroutine, that record when an event came.
type benchWatchers struct {
	delays chan time.Duration // since the commit was begun; one value per watcher and event
	begun  time.Time          // of the present commit
	all    sync.WaitGroup
}

func newWatchers(b *testing.B, ctx context.Context, s *Store, watchers int) *benchWatchers {
	c := &benchWatchers{delays: make(chan time.Duration, watchers)}
	for range watchers {
		w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: s.revisions.current.Load()})
		if err != nil {
			b.Fatal(err)
		}
		c.all.Go(func() {
			defer w.Close()
			for {
				select {
				case <-w.Ready():
				case <-ctx.Done():
					return
				}
				events, _, err := w.Next(context.Background(), 1000)
				if err != nil {
					b.Error(err)
					return
				}
				for range events {
					c.delays <- time.Since(c.begun)
				}
			}
		})
	}
	return c
}

// BenchmarkCommitBesideWatchers commits one change at a time while the type has watchers. It reports how long the
// writer waits, and when, after the commit was begun, the median watcher and the last one get its event.
func BenchmarkCommitBesideWatchers(b *testing.B) {
	for _, watchers := range []int{0, 1000, 10000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			s := openBench(b)
			d := draft(b, "default", "name")
			ctx, cancel := context.WithCancel(context.Background())
			all := newWatchers(b, ctx, s, watchers)
			var commits, medians, lasts []time.Duration
			b.ResetTimer()
			for i := range b.N {
				all.begun = time.Now()
				if _, err := s.Commit(context.Background(), resources.Write{Op: resources.Create,
					Key: configMap("default", fmt.Sprintf("cm-%08d", i)), Draft: d}); err != nil {
					b.Fatal(err)
				}
				commits = append(commits, time.Since(all.begun))
				if watchers == 0 {
					continue
				}
				delays := make([]time.Duration, watchers)
				for k := range delays {
					delays[k] = <-all.delays
				}
				slices.Sort(delays)
				medians, lasts = append(medians, delays[watchers/2]), append(lasts, delays[watchers-1])
			}
			b.StopTimer()
			cancel()
			all.all.Wait()
			reportQuantiles(b, "commit", commits)
			if watchers > 0 {
				reportQuantiles(b, "half-delivered", medians)
				reportQuantiles(b, "all-delivered", lasts)
			}
		})
	}
}

// BenchmarkIdleWatch opens watches that wait, and reports how many bytes of memory one takes.
func BenchmarkIdleWatch(b *testing.B) {
	const watches = 10000
	s := openBench(b)
	for range b.N {
		open := make([]resources.Watch, watches)
		before := heapBytes()
		for i := range open {
			w, err := s.Watch(context.Background(), resources.WatchOptions{Resource: "configmaps", After: s.revisions.current.Load()})
			if err == nil {
				_, _, err = w.Next(context.Background(), 1000)
			}
			if err != nil {
				b.Fatal(err)
			}
			open[i] = w
		}
		b.ReportMetric(float64(heapBytes()-before)/watches, "heap-B/watch")
		for _, w := range open {
			w.Close()
		}
	}
}

func reportQuantiles(b *testing.B, name string, d []time.Duration) {
	slices.Sort(d)
	for _, q := range []struct {
		name string
		at   int
	}{{"p50", len(d) / 2}, {"p99", len(d) * 99 / 100}} {
		b.ReportMetric(float64(d[q.at].Microseconds()), name+"-"+q.name+"-µs")
	}
}
