package sqlstore

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// A server whose store has moved logs that once, however often clients try again, and whichever upkeep then fails.
func TestMovedIsSaidOnce(t *testing.T) {
	for name, options := range map[string]func(*testing.T) Options{"SQLite": sqliteOptions, "Postgres": postgresOptions} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := options(t), sqliteOptions(t)
			log := &strings.Builder{} // a handler writes a line at a time
			served := from
			served.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			s, err := Open(t.Context(), served)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := movable(t.Context(), s, resources.Create, 1, "first"); err != nil {
				t.Fatal(err)
			}
			move := openMove(t, from, to)
			if err := move.Copy(t.Context(), ignoreProgress); err != nil {
				t.Fatal(err)
			}
			if _, err := move.Switch(t.Context(), slowly, ignoreProgress); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := movable(t.Context(), s, resources.Update, 1, "second"); !errors.Is(err, resources.ErrMoved) {
					t.Fatalf("refused with %v", err)
				}
				s.janitor.perform(expire)
				s.janitor.perform(note)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, movedText) {
				t.Errorf("the log has\n%s", said)
			}
		})
	}
}
