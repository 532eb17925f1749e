package controllers

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestQueueDelaysOnce adds an item with several delays. The shortest one counts, and only that one.
func TestQueueDelaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q := newQueue[string](slog.New(slog.DiscardHandler))
		begin := time.Now()
		for _, d := range []time.Duration{3, 2, 5, 2, 4} {
			q.addAfter("item", d*time.Second)
		}
		var taken []time.Duration
		go q.work(ctx, 1, func(context.Context, string) error {
			taken = append(taken, time.Since(begin))
			return nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(taken) != 1 || taken[0] != 2*time.Second {
			t.Errorf("the item was taken after %v", taken)
		}
		cancel()
		synctest.Wait()
	})
}

// TestQueueTakenNoLongerWaits adds an item while it waits: the worker that takes it does all that it waited for.
func TestQueueTakenNoLongerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q := newQueue[string](slog.New(slog.DiscardHandler))
		q.addAfter("item", time.Second)
		q.Add("item")
		var taken int
		go q.work(ctx, 1, func(context.Context, string) error {
			if taken++; taken == 1 {
				q.addAfter("item", time.Minute) // what a worker asks for remains
			}
			return nil
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if taken != 2 {
			t.Errorf("the item was taken %d times", taken)
		}
		cancel()
		synctest.Wait()
	})
}
