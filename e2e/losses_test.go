package e2e

import (
	"io"
	"testing"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/trial"
)

// TestLosses makes Postgres lose acknowledged writes: a dump is restored, or a replica without the last writes becomes the primary. Clients that
// continue from a lost revision have to be refused, and no client may be given an earlier revision again.
func TestLosses(t *testing.T) {
	if database.url == "" {
		t.Skip("writes are lost by Postgres")
	}
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	for i, way := range trial.Losses {
		t.Run(way, func(t *testing.T) {
			o := trial.Options{Servers: 2, Seed: uint64(i), Round: 2 * time.Second, Clients: 8, Watchers: 16, Names: 10, Keep: kept(t), Log: io.Discard}
			report, err := trial.Lose(t.Context(), o, way)
			if report != nil {
				wantCleanReport(t, o, report)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
