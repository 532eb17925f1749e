package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load defines the clients that repeat an operation, and until when.
type load struct {
	row     string
	clients []*client
	// most is the number of operations after which to stop, 0 for no limit; duration is the time.
	most     int
	duration time.Duration
}

// operation does one unit of work and returns the number of bytes that the server sent. seq counts all operations of the load from 0, turn those of
// this client, which is number n.
type operation func(ctx context.Context, c *client, n, turn, seq int) (int64, error)

// worker is the result of one client of a load.
type worker struct {
	latencies []time.Duration
	bytes     int64
	errors    int
	first     error
}

// run repeats the operation and returns its cost. Errors of the operation are counted, not returned.
func (l load) run(ctx context.Context, procs processes, op operation) (Result, error) {
	if err := l.connect(ctx); err != nil {
		return Result{}, err
	}
	workers := make([]worker, len(l.clients))
	var tickets atomic.Int64
	var wg sync.WaitGroup
	cpu, err := procs.cpu()
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	deadline := began.Add(l.duration)
	for n, c := range l.clients {
		wg.Go(func() {
			w := &workers[n]
			for turn := 0; ctx.Err() == nil; turn++ {
				seq := int(tickets.Add(1) - 1)
				start := time.Now()
				if l.most > 0 && seq >= l.most || start.After(deadline) {
					return
				}
				w.record(start, op, ctx, c, n, turn, seq)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	after, err := procs.cpu()
	if err != nil {
		return Result{}, err
	}
	return summarize(l, workers, elapsed, after-cpu), ctx.Err()
}

func (w *worker) record(start time.Time, op operation, ctx context.Context, c *client, n, turn, seq int) {
	bytes, err := op(ctx, c, n, turn, seq)
	w.bytes += bytes
	if err == nil {
		w.latencies = append(w.latencies, time.Since(start))
		return
	}
	w.errors++
	if w.first == nil {
		w.first = err
	}
}

// connect opens the connections of all clients, a few at a time: a thousand handshakes at once would measure the length of the listener's queue.
func (l load) connect(ctx context.Context) error {
	const atOnce = 32
	var wg sync.WaitGroup
	errs := make([]error, len(l.clients))
	slots := make(chan struct{}, atOnce)
	for n, c := range l.clients {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[n] = c.connect(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// summarize makes one result from those of all workers.
func summarize(l load, workers []worker, elapsed, cpu time.Duration) Result {
	r := Result{Row: l.row, Clients: len(l.clients), Seconds: elapsed.Seconds()}
	var all []time.Duration
	var bytes int64
	for _, w := range workers {
		all = append(all, w.latencies...)
		bytes += w.bytes
		r.Errors += w.errors
		if w.first != nil && r.FirstError == "" {
			r.FirstError = w.first.Error()
		}
	}
	r.Ops = len(all)
	slices.Sort(all)
	r.P50, r.P99 = percentile(all, 0.50), percentile(all, 0.99)
	if done := r.Ops + r.Errors; done > 0 {
		r.CPU = cpu / time.Duration(done)
		r.Bytes = bytes / int64(done)
	}
	return r
}

// percentile returns the value below which the given part of the sorted values lies.
func percentile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
