// Package trial starts servers of the built binary on a database, lets clients work on them while faults are injected, and has their histories
// verified.
//
//	trial.go     rounds of clients, faults and verification, one after the other
//	servers.go   servers of one database
//	faults.go    the faults; those of disks: disk.go; of clocks: clock.go
//	loss.go      databases that lose writes
//	lies.go      servers that lie, to test that the checker finds out
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
	"github.com/rowlock/rowlock/e2e/checker/record"
)

// Options define a trial.
type Options struct {
	// Database is SQLite or Postgres.
	Database string
	// Servers is their number; SQLite has one.
	Servers int
	// Faults are names of Faults; none: no faults are injected.
	Faults []string
	// Seed chooses the operations of clients and the faults.
	Seed uint64
	// Duration is how long clients work in all rounds together, and Round in one.
	Duration, Round time.Duration
	// Clients, Watchers and Names are those of a round.
	Clients, Watchers, Names int
	// Pause is the longest time without a fault between two faults, and a quarter of it the shortest; 0: two seconds.
	Pause time.Duration
	// HistoryAge is how old changes become before servers prune them; 0: no round lasts for so long.
	HistoryAge time.Duration
	// HistorySize bounds the bytes of history, as the server's flag does, which is then pruned at any age; empty: it is large enough for a round.
	HistorySize string
	// Args are further arguments of the servers.
	Args []string
	// Crowd and Reluctant are those of a round.
	Crowd     bool
	Reluctant int
	// Keep is the directory to which histories with violations are written, and those of rounds that have failed. KeepAll says that all are written.
	Keep    string
	KeepAll bool
	// Log gets a report of each round.
	Log io.Writer
}

// The databases.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Report is the result of a trial.
type Report struct {
	Rounds, Requests, Unanswered, Watches, Events int
	// Refused counts the streams and lists that were answered with 410.
	Refused int
	// Partial counts the rounds that were not verified to the end: they have failed, or all watches were refused the same changes.
	Partial int
	// Faults counts how often each was injected.
	Faults     map[string]int
	Violations []history.Violation
	// Kept are the files of histories.
	Kept []string
}

func (r *Report) String() string {
	return fmt.Sprintf("%d rounds (%d not verified to the end), %d requests (%d writes without an answer), %d watches, %d events, %d answers with 410; faults: %v; %d violations",
		r.Rounds, r.Partial, r.Requests, r.Unanswered, r.Watches, r.Events, r.Refused, r.Faults, len(r.Violations))
}

// The time limits of a round.
const (
	patience  = 30 * time.Second // longer than an undisturbed server takes to answer
	endWithin = 5 * time.Minute  // for servers to come back after the last fault, and watches to the end
)

// Run lets clients work, in rounds that each begin with an empty namespace, until the duration is over. Violations are not errors.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	report := &Report{Faults: map[string]int{}}
	random := rand.New(rand.NewPCG(o.Seed, 0))
	dir, err := os.MkdirTemp("", "rowlock-histories-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := start(ctx, &o, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	for left := o.Duration; left > 0 && ctx.Err() == nil; left -= o.Round {
		round := min(left, o.Round)
		h, err := s.round(ctx, &o, report, random, round)
		if err := report.add(&o, h, err); err != nil {
			return report, errors.Join(err, s.said())
		}
	}
	if err := s.settle(ctx); err != nil {
		return report, errors.Join(err, s.said())
	}
	return report, ctx.Err()
}

// round lets clients work once, while faults are injected.
func (s *servers) round(ctx context.Context, o *Options, report *Report, random *rand.Rand, duration time.Duration) (*history.History, error) {
	targets, err := s.targets()
	if err != nil {
		return nil, err
	}
	faulty, over := context.WithTimeout(ctx, duration)
	defer over()
	faults := make(chan error, 1)
	go func() { faults <- s.inject(faulty, ctx, o, random, report.Faults) }()
	report.Rounds++
	h, err := record.Round(ctx, record.Options{Targets: targets, Namespace: fmt.Sprintf("round-%d-%d", o.Seed, report.Rounds), Seed: o.Seed + uint64(report.Rounds),
		Duration: duration, Clients: o.Clients, Watchers: o.Watchers, Names: o.Names, Crowd: o.Crowd, Reluctant: o.Reluctant, Age: o.HistoryAge, Sized: o.HistorySize != "",
		Patience: patience, EndWithin: endWithin})
	over()
	return h, errors.Join(err, <-faults)
}

// add verifies the history of a round, and keeps it if there is a reason to. It returns the error of the round, too: a round that has failed is verified
// as far as it goes.
func (r *Report) add(o *Options, h *history.History, failed error) error {
	if h == nil {
		return failed
	}
	r.count(h)
	began := time.Now()
	found := history.Check(h)
	fmt.Fprintf(o.Log, "%s, %d servers, seed %d, round %d: %d operations, %d watches: %d violations (verified in %v)\n", o.Database, o.Servers, o.Seed, r.Rounds,
		len(h.Operations), len(h.Watches), len(found), time.Since(began).Round(time.Millisecond))
	if end := history.Verifiable(h); h.Cut || end < h.End {
		r.Partial++
		fmt.Fprintf(o.Log, "verified from revision %d to %d; the end is at %d (0: unknown)\n", h.Start, end, h.End)
	}
	r.Violations = append(r.Violations, found...)
	if o.Keep == "" || len(found) == 0 && failed == nil && !o.KeepAll {
		return failed
	}
	return errors.Join(failed, r.keep(o, h))
}

// count counts what has happened in a round.
func (r *Report) count(h *history.History) {
	all := h.Operations
	if h.Loss != nil {
		all = slices.Concat(all, h.Loss.Flight)
	}
	for i := range all {
		o := &all[i]
		r.Requests += max(1, len(o.Pages))
		if o.Code == 0 || o.Code >= 500 {
			r.Unanswered++
		}
		if o.Code == http.StatusGone {
			r.Refused++
		}
	}
	r.Watches += len(h.Watches)
	for i := range h.Watches {
		r.Events += len(h.Watches[i].Events)
		if h.Watches[i].Code == http.StatusGone {
			r.Refused++
		}
	}
}

// keep writes a history to a file.
func (r *Report) keep(o *Options, h *history.History) error {
	if err := os.MkdirAll(o.Keep, 0o755); err != nil {
		return err
	}
	path := filepath.Join(o.Keep, fmt.Sprintf("history-%s-%d-%d.jsonl", o.Database, o.Seed, r.Rounds))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	r.Kept = append(r.Kept, path)
	return errors.Join(history.Write(file, h), file.Close())
}

// Supports says whether a database has a fault.
func Supports(database, fault string) bool {
	f, known := faults[fault]
	return known && (f.on == "" || f.on == database)
}

// NeedsDisk says whether a fault concerns the disk, which package disk has to mount.
func NeedsDisk(fault string) bool { return faults[fault].disk }

// NeedsClock says whether a fault concerns the clock, which package clock has to put into servers.
func NeedsClock(fault string) bool { return faults[fault].clock }

// Faults are the names of all faults of a database.
func Faults(database string) string {
	var names []string
	for _, name := range order {
		if Supports(database, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
