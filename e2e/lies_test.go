package e2e

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/trial"
)

// TestLies checks that the checker detects servers that lie: a proxy between its clients and a server loses, repeats or exchanges events, loses
// acknowledged writes, shows outdated states, and so on.
func TestLies(t *testing.T) {
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	o := trial.Options{Database: trial.SQLite, Seed: 1, Round: time.Second, Clients: 6, Watchers: 12, Names: 5, Log: io.Discard}
	if database.url != "" {
		o.Database = trial.Postgres
	}
	lies, err := trial.Lies(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lies {
		if !l.Caught() {
			t.Errorf("%s: not found out; found %.1000v", l.Name, l.Found)
		}
	}
}
