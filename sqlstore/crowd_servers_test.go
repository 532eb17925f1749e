package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// With many watchers on two servers while both write, each watcher gets every event that it wants, once and in order,
// and its position never passes a revision before its events.
func TestManyWatchersOnTwoServers(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	servers := []*Store{h.store, h.openPeer(t)}
	start := h.store.position.revision
	const watchers, writers, rounds = 40, 4, 60
	var watching, writing sync.WaitGroup
	got := make([][]int64, 2*watchers)
	for i := range got {
		w, err := servers[i%2].Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
		if err != nil {
			t.Fatal(err)
		}
		watching.Go(func() {
			defer w.Close()
			got[i] = follow(ctx, t, w, start+2*writers*rounds)
		})
	}
	for i, s := range servers {
		for n := range writers {
			writing.Go(func() {
				for round := range rounds {
					if _, err := s.Commit(ctx, createMap(t, strconv.Itoa(i)+"-"+strconv.Itoa(n)+"-"+strconv.Itoa(round))); err != nil {
						t.Errorf("commit: %v", err)
					}
				}
			})
		}
	}
	writing.Wait()
	watching.Wait()
	want := make([]int64, 2*writers*rounds)
	for i := range want {
		want[i] = start + 1 + int64(i)
	}
	for i, revisions := range got {
		if !slices.Equal(revisions, want) {
			t.Fatalf("watcher %d: %d events, want %d: %v", i, len(revisions), len(want), revisions)
		}
	}
}

// follow reads a watch up to a revision, and returns the revisions of its events. The positions that Next returns are
// those of bookmarks.
func follow(ctx context.Context, t *testing.T, w resources.Watch, until int64) (revisions []int64) {
	passed := int64(0)
	for passed < until {
		events, revision, err := w.Next(ctx, 16)
		if err != nil {
			t.Errorf("next: %v", err)
			return revisions
		}
		for _, e := range events {
			if e.Revision <= passed {
				t.Errorf("event %d came after the watch had passed %d", e.Revision, passed)
			}
			revisions = append(revisions, e.Revision)
		}
		passed = max(passed, revision)
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			t.Errorf("the watch came to %d of %d", passed, until)
			return revisions
		}
	}
	return revisions
}

// BenchmarkEventOnAnotherServer measures how long after a commit on one server its event can be read on another, at 500
// writes a second.
func BenchmarkEventOnAnotherServer(b *testing.B) {
	c, err := cluster()
	if err != nil {
		b.Fatal(err)
	}
	open := func() *Store {
		s, err := Open(context.Background(), Options{URL: c.URL(), Schema: fmt.Sprintf("Bench %d", b.N), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	writer, reader := open(), open()
	defer writer.Close()
	defer reader.Close()
	w, err := reader.Watch(context.Background(), resources.WatchOptions{Resource: "configmaps", After: writer.position.revision})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	var mu sync.Mutex
	committed := map[int64]time.Time{}
	last := writer.position.revision + int64(b.N)
	seen := map[int64]time.Time{}
	var watching, writing sync.WaitGroup
	watching.Go(func() {
		for passed := int64(0); passed < last; {
			events, revision, err := w.Next(context.Background(), 100)
			if err != nil {
				b.Error(err)
				return
			}
			now := time.Now()
			for _, e := range events {
				seen[e.Revision] = now
			}
			if passed = revision; len(events) == 0 && passed < last {
				<-w.Ready()
			}
		}
	})
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	b.ResetTimer()
	for i := range b.N {
		<-tick.C
		writing.Go(func() {
			made, err := writer.Commit(context.Background(), createMap(b, "event"+strconv.Itoa(i)))
			if err != nil {
				b.Error(err)
				return
			}
			now := time.Now()
			mu.Lock()
			committed[made[0].Revision] = now
			mu.Unlock()
		})
	}
	writing.Wait()
	watching.Wait()
	b.StopTimer()
	var delays []time.Duration
	for revision, at := range committed {
		delays = append(delays, max(0, seen[revision].Sub(at)))
	}
	slices.Sort(delays)
	b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), "p99-µs")
}
