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

// movable commits an operation on whatever is there, and returns the revision.
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

// content are the rows that make a store.
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

// slowly is a time that nothing takes.
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

// A store that is written to all the time moves: what was acknowledged is in the target, under its revision, and what was refused is not.
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

// checkMoved looks whether a store goes on where another one ended.
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

// A process that ends at any moment leaves the source a store, and what it has copied to the next one, whatever was written meanwhile.
func TestMoveGoesOn(t *testing.T) {
	for _, m := range movers[:2] {
		for _, pruned := range []bool{false, true} {
			t.Run(fmt.Sprint(m.name, ", pruned ", pruned), func(t *testing.T) {
				t.Parallel()
				goOn(t, m.from(t), m.to(t), pruned)
			})
		}
	}
}

func goOn(t *testing.T, from, to Options, pruned bool) {
	if pruned {
		from.HistorySize = 1
	}
	s := openStore(t, from)
	var writes []resources.Write
	for i := range movePage + 500 {
		if writes = append(writes, moveWrite(resources.Create, i, "first")); len(writes) == batchWrites/2 {
			if _, err := s.Commit(t.Context(), writes...); err != nil {
				t.Fatal(err)
			}
			writes = nil
		}
	}
	for attempt := range 4 {
		move, err := OpenMove(t.Context(), from, to)
		if err != nil {
			t.Fatal(err)
		}
		if known := move.Seen() > 0; known != (attempt == 3) {
			t.Errorf("attempt %d goes on from revision %d", attempt, move.Seen())
		}
		ctx, kill := context.WithCancel(t.Context())
		err = move.Copy(ctx, func(p MoveProgress) {
			if attempt < 2 && p.Rows >= movePage {
				kill()
			}
		})
		if kill(); (err == nil) != (attempt >= 2) {
			t.Errorf("attempt %d: %v", attempt, err)
		}
		if err := move.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), to); err == nil {
			t.Fatal("a part of a store was opened")
		}
		for i := range 30 {
			op := []resources.Op{resources.Update, resources.Delete}[i%2]
			if _, err := movable(t.Context(), s, op, attempt*30+i, fmt.Sprint("attempt ", attempt)); err != nil {
				t.Fatal(err)
			}
		}
		if pruned {
			if _, err := s.janitor.prune(); err != nil {
				t.Fatal(err)
			}
		}
	}
	move, err := OpenMove(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	var copied MoveProgress
	moved, err := move.Switch(t.Context(), slowly, func(p MoveProgress) { copied = p })
	if err != nil {
		t.Fatal(err)
	}
	if copied.Different != 30 || pruned != (copied.Of > 1000) {
		t.Errorf("what was written last was copied as %+v", copied)
	}
	if was, is := content(t, from), content(t, to); !reflect.DeepEqual(was, is) {
		t.Errorf("%d rows became %d, or others", len(was), len(is))
	}
	if err := move.Close(); err != nil {
		t.Fatal(err)
	}
	checkMoved(t, openStore(t, to), moved.Revision)
}

// A process that ends after the source was marked, and before the target was finished, leaves two databases that take no writes, and the next
// one finishes.
func TestMoveEndsBetweenSourceAndTarget(t *testing.T) {
	for _, m := range movers[:2] {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from, to := m.from(t), m.to(t)
			s := openStore(t, from)
			last, err := movable(t.Context(), s, resources.Create, 1, "first")
			if err != nil {
				t.Fatal(err)
			}
			move, err := OpenMove(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			place, err := to.place()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(move.Copy(t.Context(), ignoreProgress), prepareFence(t.Context(), &from)); err != nil {
				t.Fatal(err)
			}
			f, err := raiseFence(t.Context(), &from, slowly)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.last(t.Context(), place), f.lift(), move.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := movable(t.Context(), s, resources.Update, 1, "second"); !errors.Is(err, resources.ErrMoved) {
				t.Errorf("a write to the source: %v", err)
			}
			if _, err := Open(t.Context(), to); err == nil {
				t.Error("the target is a store")
			}
			if _, err := OpenMove(t.Context(), from, m.to(t)); err == nil {
				t.Error("it moves to somewhere else as well")
			}
			if move, err = OpenMove(t.Context(), from, to); err != nil {
				t.Fatal(err)
			}
			if moved, err := move.Switch(t.Context(), slowly, ignoreProgress); err != nil || moved.Revision != last {
				t.Errorf("at revision %d of %d, %v", moved.Revision, last, err)
			}
			if err := move.Close(); err != nil {
				t.Fatal(err)
			}
			checkMoved(t, openStore(t, to), last)
		})
	}
}

// Where the rest cannot be copied in the time that writes may be held, they go on.
func TestMoveHoldsWritesNoLonger(t *testing.T) {
	for _, m := range movers[:2] {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from, to := m.from(t), m.to(t)
			s := openStore(t, from)
			move, err := OpenMove(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			defer move.Close()
			if _, err := move.Switch(t.Context(), 1, ignoreProgress); !errors.Is(err, errHeldTooLong) {
				t.Errorf("in a nanosecond: %v", err)
			}
			if _, err := movable(t.Context(), s, resources.Create, 1, "first"); err != nil {
				t.Errorf("a write after that: %v", err)
			}
		})
	}
}

// What was begun of one store is not made another one.
func TestMoveOfTwoStores(t *testing.T) {
	for _, m := range movers[:2] {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			to := m.to(t)
			for i := range 2 {
				from := m.from(t)
				openStore(t, from)
				move, err := OpenMove(t.Context(), from, to)
				if i == 1 {
					if !errors.Is(err, ErrNotEmpty) {
						t.Errorf("of another store: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := move.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
