package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// movers are the kinds of databases that a store moves between.
var movers = []struct {
	name     string
	from, to func(*testing.T) Options
}{
	{"SQLiteToPostgres", sqliteOptions, postgresOptions},
	{"PostgresToSQLite", postgresOptions, sqliteOptions},
	{"SQLiteToSQLite", sqliteOptions, sqliteOptions},
	{"PostgresToPostgres", postgresOptions, postgresOptions},
}

func sqliteOptions(t *testing.T) Options {
	return Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "rowlock.db"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func postgresOptions(t *testing.T) Options {
	t.Helper()
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	return Options{URL: c.URL(), Schema: fmt.Sprintf("Move %d", schemas.Add(1)), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openMove begins a move, which ends with the test.
func openMove(t *testing.T, from, to Options) *Move {
	t.Helper()
	move, err := OpenMove(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = move.Close() })
	return move
}

// moveWrite is a write of one of a few objects.
func moveWrite(op resources.Op, i int, text string) resources.Write {
	key := resources.Key{Resource: []string{"configmaps", "leases.coordination.k8s.io"}[i%2], Namespace: fmt.Sprint("n", i%3), Name: fmt.Sprintf("o%04d", i)}
	w := resources.Write{Op: op, Key: key}
	if op != resources.Delete {
		w.Draft = resources.Draft{Data: fmt.Appendf(nil, `{"metadata":{"resourceVersion":"0","uid":"u-%d"},"text":%q}`, i, text)}
		w.Draft.RevisionStart, w.Draft.RevisionEnd, _ = resources.RevisionSpan(w.Draft.Data)
	}
	return w
}

// movable commits an operation on the present object, if any, and returns the revision.
func movable(ctx context.Context, s *Store, op resources.Op, i int, text string) (int64, error) {
	w := moveWrite(op, i, text)
	if op != resources.Create {
		o, err := s.Get(ctx, w.Key, resources.At{})
		if err != nil {
			return 0, err
		}
		w.From = o.Revision
	}
	written, err := s.Commit(ctx, w)
	if err != nil {
		return 0, err
	}
	return written[0].Revision, nil
}

// content returns the rows that make up a store.
func content(t *testing.T, o Options) [][]any {
	t.Helper()
	source, err := OpenSource(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	var rows [][]any
	if err := source.Each(t.Context(), func(_ string, columns []string) error {
		rows = append(rows, nil)
		for _, c := range columns {
			rows[len(rows)-1] = append(rows[len(rows)-1], c)
		}
		return nil
	}, func(row []any) error {
		rows = append(rows, row)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

func ignoreProgress(MoveProgress) {}

// slowly is a time limit that is never reached.
const slowly = 5 * time.Minute

// Of two processes that move a store to different places, one succeeds.
func TestMoveToTwoPlaces(t *testing.T) {
	for _, m := range movers {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from := m.from(t)
			s := openStore(t, from)
			if _, err := movable(t.Context(), s, resources.Create, 1, "first"); err != nil {
				t.Fatal(err)
			}
			var moves []*Move
			for range 2 {
				move, err := OpenMove(t.Context(), from, m.to(t))
				if err != nil {
					t.Fatal(err)
				}
				moves = append(moves, move)
			}
			if _, err := moves[0].Switch(t.Context(), slowly, ignoreProgress); err != nil {
				t.Fatal(err)
			}
			if _, err := moves[1].Switch(t.Context(), slowly, ignoreProgress); !errors.Is(err, resources.ErrMoved) {
				t.Errorf("the other one: %v", err)
			}
			if err := errors.Join(moves[0].Close(), moves[1].Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), moves[1].to); !errors.Is(err, ErrMoving) {
				t.Errorf("its target: %v", err)
			}
		})
	}
}

// A store moves while it is written to: acknowledged writes are in the target, under their revisions, and refused ones
// are not.
func TestMoveOfARunningStore(t *testing.T) {
	for _, m := range movers {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from, to := m.from(t), m.to(t)
			s := openStore(t, from)
			for i := range 40 {
				if _, err := movable(t.Context(), s, resources.Create, i, "first"); err != nil {
					t.Fatal(err)
				}
			}
			move, err := OpenMove(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			if err := move.Copy(t.Context(), ignoreProgress); err != nil {
				t.Fatal(err)
			}
			refused := make(chan error, 1)
			var last int64
			written, enough := 0, make(chan struct{})
			go func() {
				for i := 0; ; i++ {
					revision, err := movable(context.WithoutCancel(t.Context()), s, []resources.Op{resources.Update, resources.Delete, resources.Create}[i%3], i/3%40, fmt.Sprint("text ", i))
					if err != nil {
						refused <- err
						return
					}
					last = revision
					if written++; written == 20 {
						close(enough)
					}
				}
			}()
			select {
			case <-enough:
			case err := <-refused:
				t.Fatal(err)
			}
			moved, err := move.Switch(t.Context(), slowly, ignoreProgress)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-refused; !errors.Is(err, resources.ErrMoved) || !errors.Is(err, resources.ErrUnavailable) {
				t.Errorf("refused with %v", err)
			}
			if last != moved.Revision {
				t.Errorf("the last revision that was given is %d, the target begins at %d", last, moved.Revision)
			}
			if err := s.Ready(t.Context()); !errors.Is(err, resources.ErrMoved) {
				t.Errorf("the source is ready: %v", err)
			}
			if err := errors.Join(s.Close(), move.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), from); !errors.Is(err, resources.ErrMoved) {
				t.Errorf("open the source: %v", err)
			}
			newest := ask(t, from, "UPDATE schema_migrations SET version = version - 1 RETURNING version + 1")[0][0]
			if _, err := Open(t.Context(), from); !errors.Is(err, resources.ErrMoved) {
				t.Errorf("open the source, with tables of a version before: %v", err)
			}
			ask(t, from, "UPDATE schema_migrations SET version = "+newest+" RETURNING version")
			if was, is := content(t, from), content(t, to); !reflect.DeepEqual(was, is) {
				t.Errorf("%d rows became %d, or others", len(was), len(is))
			}
			if _, err := OpenMove(t.Context(), from, to); !errors.Is(err, ErrAlreadyMoved) {
				t.Errorf("once more: %v", err)
			}
			checkMoved(t, openStore(t, to), moved.Revision)
		})
	}
}

// checkMoved checks that a store continues where another one ended.
func checkMoved(t *testing.T, s *Store, revision int64) {
	t.Helper()
	if at := s.revisions.current.Load(); at != revision {
		t.Errorf("the counter is at %d", at)
	}
	w, err := s.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", After: revision})
	if err != nil {
		t.Errorf("a watch from the last revision: %v", err)
	} else {
		w.Close()
	}
	var expired *resources.ExpiredError
	if _, err := s.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", After: revision - 1}); !errors.As(err, &expired) {
		t.Errorf("a watch from before: %v", err)
	}
	next, err := movable(t.Context(), s, resources.Create, 9999, "next")
	if err != nil || next != revision+1 {
		t.Errorf("the next revision is %d, %v", next, err)
	}
}
