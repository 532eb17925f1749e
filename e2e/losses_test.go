package e2e

import (
	"io"
	"testing"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/trial"
)

// TestLosses has Postgres lose writes that were acknowledged: a dump is restored, and a replica becomes the primary that did not have the last of them.
// Clients that go on where they were have to be refused, and nobody may be told a revision that was given before.
func TestLosses(t *testing.T) {
	if database.url == "" {
		t.Skip("writes are lost by Postgres")
	}
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	for i, way := range trial.Losses {
		t.Run(way, func(t *testing.T) {
			report, err := trial.Lose(t.Context(), trial.Options{Servers: 2, Seed: uint64(i), Round: 2 * time.Second, Clients: 8, Watchers: 16, Names: 10,
				Keep: t.TempDir(), Log: io.Discard}, way)
			if err != nil {
				t.Fatal(err)
			}
			wantClean(t, report)
		})
	}
}
