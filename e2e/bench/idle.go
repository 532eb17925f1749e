package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// rowIdleWatches is the name of the idle watches among the rows.
const rowIdleWatches = "idle watches"

// idleEvents is how many events are sent to all of the idle watches, one after the other.
const idleEvents = 10

// IdleWatches is the cost of many watches of one type that see an event now and then.
type IdleWatches struct {
	Watches int
	Failed  int // watches that ended, or were not opened
	// Resident is how much more memory is resident with them than before, in bytes.
	Resident int64
	// P50 and P99 are the times of an event to one of the watches, from before its write was sent.
	P50, P99 time.Duration
	CPU      time.Duration // the server's, per event and watch, with the write's
}

// idleWatches opens the watches and sends an event at a time to all of them. Over HTTP/1.1 each would need a connection.
func (b *bench) idleWatches(ctx context.Context) error {
	if b.IdleWatches == 0 || b.unwanted(rowIdleWatches) || b.Protocols[0] != http2 {
		return nil
	}
	b.begin(fmt.Sprintf("%d idle watches", b.IdleWatches))
	crew, err := b.crew(http2, b.IdleWatches)
	if err != nil {
		return err
	}
	if err := (load{clients: crew[:connections(http2, len(crew))]}).connect(ctx); err != nil {
		return err
	}
	// After other rows a server gives memory back, which would be taken for memory that the watches save.
	if err := pause(ctx, b.Idle/2); err != nil {
		return err
	}
	before, err := b.procs.resident()
	if err != nil {
		return err
	}
	w := newIdleWatching(b.IdleWatches)
	ctx, stop := context.WithCancel(ctx)
	defer w.wg.Wait()
	defer stop()
	result := &IdleWatches{Watches: b.IdleWatches, Failed: w.open(ctx, crew)}
	if err := pause(ctx, b.Idle/4); err != nil {
		return err
	}
	after, err := b.procs.resident()
	if err != nil {
		return err
	}
	result.Resident = after - before
	if err := b.tellAll(ctx, w, result, idleEvents); err != nil {
		return err
	}
	b.server.IdleWatches = result
	return nil
}

// tellAll sends the events and waits for each until it has reached all.
func (b *bench) tellAll(ctx context.Context, w *idleWatching, result *IdleWatches, events int) error {
	cpu, err := b.procs.cpu()
	if err != nil {
		return err
	}
	var delays []time.Duration
	for turn := range events {
		sent := time.Now()
		if _, err := b.apply(ctx, b.admin, 0, 0, turn); err != nil {
			return err
		}
		for range result.Watches - result.Failed {
			select {
			case at := <-w.arrived:
				delays = append(delays, at.Sub(sent))
			case <-w.ended:
				result.Failed++
			case <-time.After(catchUp):
				return errors.New("not every watch has seen the event")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	after, err := b.procs.cpu()
	if err != nil {
		return err
	}
	slices.Sort(delays)
	result.P50, result.P99 = percentile(delays, 0.50), percentile(delays, 0.99)
	result.CPU = (after - cpu) / time.Duration(max(1, len(delays)))
	return nil
}

// idleWatching is a set of watches that only report that an event came.
type idleWatching struct {
	arrived chan time.Time
	ended   chan struct{}
	wg      sync.WaitGroup
}

func newIdleWatching(n int) *idleWatching {
	return &idleWatching{arrived: make(chan time.Time, n), ended: make(chan struct{}, n)}
}

// open opens the watches, some at a time, and returns how many failed.
func (w *idleWatching) open(ctx context.Context, crew []*client) (failed int) {
	const atOnce = 64
	slots, opened := make(chan struct{}, atOnce), make(chan bool, len(crew))
	for _, c := range crew {
		slots <- struct{}{}
		w.wg.Go(func() {
			response, err := c.open(ctx, request{method: http.MethodGet, path: configMapsPath +
				"?watch=true&timeoutSeconds=3600&sendInitialEvents=false&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"})
			<-slots
			opened <- err == nil
			if err != nil {
				return
			}
			defer response.Body.Close()
			w.read(response)
		})
	}
	for range crew {
		if !<-opened {
			failed++
		}
	}
	return failed
}

func (w *idleWatching) read(response *http.Response) {
	lines := bufio.NewReaderSize(response.Body, 4<<10)
	for {
		line, partial, err := lines.ReadLine()
		if err != nil {
			w.ended <- struct{}{}
			return
		}
		if !bytes.HasPrefix(line, bookmarkHead) {
			w.arrived <- time.Now()
		}
		for partial && err == nil {
			_, partial, err = lines.ReadLine()
		}
	}
}
