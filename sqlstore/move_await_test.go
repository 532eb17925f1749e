package sqlstore

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// A store that is opened while a Move fills it is opened when the Move has ended. A Move that was interrupted can go on meanwhile.
func TestOpenAwaitsAMove(t *testing.T) {
	for _, m := range movers {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from, to := m.from(t), m.to(t)
			s := openStore(t, from)
			if _, err := movable(t.Context(), s, resources.Create, 1, "first"); err != nil {
				t.Fatal(err)
			}
			move, err := OpenMove(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			if err := move.Copy(t.Context(), ignoreProgress); err != nil {
				t.Fatal(err)
			}
			if err := move.Close(); err != nil {
				t.Fatal(err)
			}
			said, log := io.Pipe()
			defer log.Close()
			type result struct {
				store *Store
				err   error
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			opened := make(chan result, 2)
			awaiting := to
			awaiting.AwaitMove, awaiting.Logger = true, slog.New(slog.NewTextHandler(log, nil))
			open := func(ctx context.Context) {
				store, err := Open(ctx, awaiting)
				opened <- result{store, err}
			}
			waits := func() {
				t.Helper()
				line := make([]byte, 1<<10)
				if n, err := said.Read(line); err != nil || !strings.Contains(string(line[:n]), "waiting until the database is a store") {
					t.Fatalf("said %q, %v", line[:n], err)
				}
			}
			go open(ctx)
			waits()
			cancel()
			if r := <-opened; r.err == nil {
				t.Error("it was opened while it was filled")
			}
			go open(t.Context())
			waits()
			go func() { _, _ = io.Copy(io.Discard, said) }()
			move = openMove(t, from, to)
			moved, err := move.Switch(t.Context(), slowly, ignoreProgress)
			if err != nil {
				t.Fatal(err)
			}
			if err := move.Close(); err != nil {
				t.Fatal(err)
			}
			r := <-opened
			if r.err != nil {
				t.Fatal(r.err)
			}
			defer r.store.Close()
			checkMoved(t, r.store, moved.Revision)
		})
	}
}
