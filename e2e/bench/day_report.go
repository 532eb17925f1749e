package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// The goals of a day.
const (
	dayFilesTimes = 3        // the size of the files, as a multiple of the bytes of live objects, plus those of history
	dayLogMost    = 64 << 20 // SQLite's write-ahead log, in bytes
	dayWrittenMax = 3        // bytes written to disk, as a multiple of the object's
)

// dayUpkeep are the kinds of upkeep of which a step may delay a writer by 100 ms at most.
var dayUpkeep = []string{"prune", "checkpoint", "vacuum"}

// dayResult is the result of a day.
type dayResult struct {
	options       dayOptions
	took          time.Duration
	writes        int
	latencies     []time.Duration
	object        float64 // average bytes of an object after a write
	files         dayFiles
	live, history int64
	written       float64 // bytes to disk, for each change
	upkeep        map[string]float64
	steps         map[string]float64
	commits, slow float64
	lists         int
	backups       int
	backupFailed  error
}

// run runs the day.
func (w *dayWork) run(ctx context.Context) (*dayResult, error) {
	r := &dayResult{options: w.dayOptions}
	w.begin("day")
	before, err := w.samples(ctx)
	if err != nil {
		return nil, err
	}
	reading, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	if err := w.readers(reading, &all, r); err != nil {
		return nil, err
	}
	all.Go(func() {
		for reading.Err() == nil {
			r.files.look(w.dir)
			_ = pause(reading, 20*time.Millisecond)
		}
	})
	began := time.Now()
	workers, err := w.workers(ctx)
	if err != nil {
		return nil, err
	}
	r.took = time.Since(began)
	after, err := w.samples(ctx)
	if err != nil {
		return nil, err
	}
	stop()
	all.Wait()
	r.files.look(w.dir)
	r.compare(before, after)
	if r.live, err = w.liveBytes(ctx); err != nil {
		return nil, err
	}
	return r, errors.Join(r.add(workers), r.backupFailed)
}

// compare takes the growth of the metrics.
func (r *dayResult) compare(before, after samples) {
	grown := func(name string) float64 { return after.sum(name) - before.sum(name) }
	r.history = int64(after.sum("rowlock_store_history_bytes"))
	r.written = grown("rowlock_store_written_bytes_total") / max(1, grown("rowlock_store_events_total"))
	r.slow, r.commits = after.beyond("rowlock_store_commit_seconds", "", "0.128")
	r.upkeep, r.steps = map[string]float64{}, map[string]float64{}
	for _, work := range dayUpkeep {
		r.upkeep[work], r.steps[work] = after.beyond("rowlock_store_upkeep_seconds", fmt.Sprintf("work=%q", work), "0.1")
	}
}

// add takes the workers' results. A write that failed is an error.
func (r *dayResult) add(workers []*dayWorker) error {
	var stored int64
	for _, one := range workers {
		r.writes += one.writes
		r.latencies = append(r.latencies, one.latencies...)
		stored += one.stored
		if one.errors > 0 {
			return fmt.Errorf("%d writes failed, the first: %w", one.errors, one.first)
		}
	}
	slices.Sort(r.latencies)
	r.object = float64(stored) / float64(max(1, r.writes))
	return nil
}

// mostFiles is the limit for the files at the end.
func (r *dayResult) mostFiles() int64 { return dayFilesTimes*r.live + r.history }

// goals are the goals of a day, and whether they are reached.
func (r *dayResult) goals() (goals []dayGoal) {
	add := func(name, goal, figure string, reached bool) {
		goals = append(goals, dayGoal{name, goal, figure, reached})
	}
	add("files at the end", fmt.Sprintf("%d × live objects + history: %.1f MiB", dayFilesTimes, mebi(r.mostFiles())),
		fmt.Sprintf("%.1f MiB: database %.1f, write-ahead log %.1f", mebi(r.files.database+r.files.log), mebi(r.files.database), mebi(r.files.log)),
		r.files.database+r.files.log <= r.mostFiles())
	add("write-ahead log at most", fmt.Sprintf("%d MiB", dayLogMost>>20), fmt.Sprintf("%.1f MiB", mebi(r.files.mostLog)), r.files.mostLog <= dayLogMost)
	add("written to disk for a write", fmt.Sprintf("%d × the object of %.0f bytes", dayWrittenMax, r.object),
		fmt.Sprintf("%.0f bytes, %.1f ×", r.written, r.written/r.object), r.written <= dayWrittenMax*r.object)
	for _, work := range dayUpkeep {
		add("steps of "+work+" over 100 ms", "0", fmt.Sprintf("%.0f of %.0f", r.upkeep[work], r.steps[work]), r.upkeep[work] == 0)
	}
	add("transactions over 128 ms", "0", fmt.Sprintf("%.0f of %.0f", r.slow, r.commits), r.slow == 0)
	return goals
}

// dayGoal is one of them, with a figure beside it.
type dayGoal struct {
	name, goal, figure string
	reached            bool
}

func (r *dayResult) missed() (names []string) {
	for _, g := range r.goals() {
		if !g.reached {
			names = append(names, g.name)
		}
	}
	return names
}

func (r *dayResult) print(out io.Writer) {
	fmt.Fprintf(out, "%s of %d nodes in %s (to be %s): %d writes, %.0f a second; %d lists of old revisions, %d backups\n\n",
		r.options.day, r.options.cluster, r.took.Round(time.Second), r.options.within, r.writes, float64(r.writes)/r.took.Seconds(), r.lists, r.backups)
	fmt.Fprintf(out, "| | goal | |\n|---|---|---|\n")
	for _, g := range r.goals() {
		figure := g.figure
		if !g.reached {
			figure = "**" + figure + "**"
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", g.name, g.goal, figure)
	}
	fmt.Fprintf(out, "| live objects, history | | %.1f, %.1f MiB |\n| database at most | | %.1f MiB |\n", mebi(r.live), mebi(r.history), mebi(r.files.mostDatabase))
	fmt.Fprintf(out, "| a write, as clients see it: p50, p99, longest | | %s, %s, %s |\n", percentile(r.latencies, 0.5).Round(time.Millisecond/10),
		percentile(r.latencies, 0.99).Round(time.Millisecond/10), percentile(r.latencies, 1).Round(time.Millisecond))
}

func mebi(n int64) float64 { return float64(n) / (1 << 20) }
