package main

import (
	"slices"
	"testing"
	"time"
)

// TestDayGoals checks that the result of a day is read from a server's metrics, and that each missed goal is named.
func TestDayGoals(t *testing.T) {
	const metrics = `# HELP rowlock_store_commit_seconds How long
rowlock_store_commit_seconds_bucket{le="0.128"} 98
rowlock_store_commit_seconds_bucket{le="+Inf"} 100
rowlock_store_commit_seconds_count 100
rowlock_store_upkeep_seconds_bucket{work="prune",le="0.1"} 7
rowlock_store_upkeep_seconds_count{work="prune"} 10
rowlock_store_upkeep_seconds_bucket{work="vacuum",le="0.1"} 5
rowlock_store_upkeep_seconds_count{work="vacuum"} 5
rowlock_store_events_total{op="create"} 6
rowlock_store_events_total{op="update"} 14
rowlock_store_written_bytes_total 9e+04
rowlock_store_history_bytes 1000
`
	r := &dayResult{object: 1000, live: 2000, files: dayFiles{database: 5000, log: 2001, mostLog: dayLogMost}}
	r.compare(parseSamples("rowlock_store_written_bytes_total 3e+04\n"), parseSamples(metrics))
	if r.slow != 2 || r.commits != 100 || r.upkeep["prune"] != 3 || r.steps["prune"] != 10 || r.upkeep["vacuum"] != 0 || r.steps["vacuum"] != 5 || r.written != 3000 || r.history != 1000 {
		t.Errorf("read %+v", r)
	}
	if got, want := r.missed(), []string{"files at the end", "steps of prune over 100 ms", "transactions over 128 ms"}; !slices.Equal(got, want) {
		t.Errorf("missed %q, want %q", got, want)
	}
	r.files.mostLog, r.files.log, r.written = dayLogMost+1, 2000, 3001
	if got, want := r.missed(), []string{"write-ahead log at most", "written to disk for a write", "steps of prune over 100 ms", "transactions over 128 ms"}; !slices.Equal(got, want) {
		t.Errorf("missed %q, want %q", got, want)
	}
}

// TestDayScaled checks that lifetimes are shortened as much as the day.
func TestDayScaled(t *testing.T) {
	d := dayOptions{day: 4 * time.Hour, within: 2 * time.Minute}
	if got := d.scaled(time.Hour); got != 30*time.Second {
		t.Errorf("an hour lasts %s", got)
	}
	if got := d.scaled(time.Second); got != 100*time.Millisecond {
		t.Errorf("a second lasts %s", got)
	}
}
