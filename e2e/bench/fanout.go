package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// fanOutWriters is how many clients write while the watchers watch.
const fanOutWriters = 4

// catchUp limits the time of the watchers after the last write.
const catchUp = 60 * time.Second

// fanOuts measures the fan-out over each protocol.
func (b *bench) fanOuts(ctx context.Context) error {
	for _, p := range b.Protocols {
		if b.Watchers == 0 || b.unwanted(rowFanOut) {
			return nil
		}
		if err := b.fanOut(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// rowFanOut is the name of the fan-out among the rows.
const rowFanOut = "events"

// fanOut measures the cost of one event to one watcher: many watchers see every write of a few writers. The writes' own cost, measured before without
// watchers, is subtracted.
func (b *bench) fanOut(ctx context.Context, p protocol) error {
	clients, err := b.crew(p, b.Watchers+fanOutWriters)
	if err != nil {
		return err
	}
	writers := load{row: "writes of the fan-out", clients: clients[b.Watchers:], most: b.Events, duration: 100 * b.Duration}
	b.begin(fmt.Sprintf("fan-out to %d watchers, %s", b.Watchers, p))
	alone, err := writers.run(ctx, b.procs, b.stamp(new(atomic.Int64)))
	if err != nil {
		return err
	}
	// Watchers connect and are at the same revision before the first write counts.
	if err := (load{clients: clients}).connect(ctx); err != nil {
		return err
	}
	from, err := b.revision(ctx, clients[0])
	if err != nil {
		return err
	}
	watch := newWatching(clients[:b.Watchers], from)
	watch.start(ctx)
	defer watch.stop()
	if err := watch.awaitOpen(ctx); err != nil {
		return err
	}
	before, err := b.procs.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	var last atomic.Int64
	written, err := writers.run(ctx, b.procs, b.stamp(&last))
	if err != nil {
		return err
	}
	watch.awaitRevision(ctx, last.Load())
	elapsed := time.Since(began)
	after, err := b.procs.cpu()
	if err != nil {
		return err
	}
	watch.stop()
	seen := watch.summarize(written, elapsed, after-before-time.Duration(written.Ops)*alone.CPU)
	seen.Protocol = p
	b.server.FanOuts = append(b.server.FanOuts, seen)
	return ctx.Err()
}

// stamp is a write that carries the time at which it was sent. It raises last to the revision of the write.
func (b *bench) stamp(last *atomic.Int64) operation {
	return func(ctx context.Context, c *client, n, turn, _ int) (int64, error) {
		r := turnPatch(b.mine(n, turn, fanOutWriters), time.Now().UnixNano())
		r.keep = true
		size, err := c.do(ctx, r)
		if err != nil {
			return size, err
		}
		revision := revisionOf(c.body.Bytes())
		for seen := last.Load(); seen < revision && !last.CompareAndSwap(seen, revision); seen = last.Load() {
		}
		return size, nil
	}
}

// revision returns the present revision of the collection.
func (b *bench) revision(ctx context.Context, c *client) (int64, error) {
	_, err := c.do(ctx, request{method: http.MethodGet, path: podsPath + "?limit=1", keep: true})
	return revisionOf(c.body.Bytes()), err
}

// watching is a set of watchers of the same collection.
type watching struct {
	watchers []*watcher
	opened   chan struct{} // a value for each watcher that is connected for the first time
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// watcher is one watcher and its results.
type watcher struct {
	client     *client
	revision   atomic.Int64 // of the last event or bookmark
	events     int
	repeated   int // events at or before a revision already seen
	reconnects int
	expired    int // answers of 410: it had to start anew, and has missed the events in between
	latencies  []time.Duration
}

func newWatching(clients []*client, from int64) *watching {
	w := &watching{opened: make(chan struct{}, len(clients))}
	for _, c := range clients {
		one := &watcher{client: c}
		one.revision.Store(from)
		w.watchers = append(w.watchers, one)
	}
	return w
}

func (w *watching) start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(ctx)
	for _, one := range w.watchers {
		w.wg.Go(func() { one.run(ctx, w.opened) })
	}
}

// stop ends all watches and waits for their goroutines. It may be called twice.
func (w *watching) stop() {
	w.cancel()
	w.wg.Wait()
}

// awaitOpen waits until every watcher has been answered.
func (w *watching) awaitOpen(ctx context.Context) error {
	for range w.watchers {
		select {
		case <-w.opened:
		case <-time.After(catchUp):
			return errors.New("not every watch was answered")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// awaitRevision waits until every watcher has reached the revision. Events of watchers that do not in time appear in the summary as lost.
func (w *watching) awaitRevision(ctx context.Context, revision int64) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for ctx.Err() == nil {
		if !slices.ContainsFunc(w.watchers, func(one *watcher) bool { return one.revision.Load() < revision }) {
			return
		}
		_ = pause(ctx, time.Millisecond)
	}
}

// run watches until the context ends, and resumes whenever the server ends the watch.
func (w *watcher) run(ctx context.Context, opened chan<- struct{}) {
	first := true
	for ctx.Err() == nil {
		response, err := w.client.open(ctx, request{method: http.MethodGet, path: fmt.Sprintf(
			"%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion=%d", podsPath, w.revision.Load())})
		if isStatus(err, http.StatusGone) {
			w.startAnew()
		}
		if err != nil {
			_ = pause(ctx, 10*time.Millisecond)
			continue
		}
		if first {
			opened <- struct{}{}
		} else {
			w.reconnects++
		}
		first = false
		w.read(response.Body)
		response.Body.Close()
	}
}

// startAnew drops the revision that the server no longer has; the next watch starts with the present state.
func (w *watcher) startAnew() {
	w.expired++
	w.revision.Store(0)
}

// read takes events until the stream ends.
func (w *watcher) read(stream io.Reader) {
	lines := bufio.NewReaderSize(stream, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		revision := revisionOf(line)
		switch {
		case bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)):
			w.startAnew()
			return
		case bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)):
		case revision <= w.revision.Load():
			w.repeated++
		default:
			w.events++
			w.latencies = append(w.latencies, time.Since(time.Unix(0, turnOf(line))))
		}
		w.revision.Store(max(revision, w.revision.Load()))
	}
}

// summarize is called after stop.
func (w *watching) summarize(written Result, elapsed, cpu time.Duration) *FanOut {
	f := &FanOut{Watchers: len(w.watchers), Writes: written.Ops, WriteErrors: written.Errors, Seconds: elapsed.Seconds()}
	var all []time.Duration
	for _, one := range w.watchers {
		f.Events += one.events
		f.Lost += max(0, written.Ops-one.events)
		f.Repeated += one.repeated
		f.Reconnects += one.reconnects
		f.Expired += one.expired
		all = append(all, one.latencies...)
	}
	slices.Sort(all)
	f.P50, f.P99 = percentile(all, 0.50), percentile(all, 0.99)
	if f.Events > 0 {
		f.CPU = max(0, cpu) / time.Duration(f.Events)
	}
	return f
}
