package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// A process that ends at any moment leaves the source as a store, and the next one continues with the copied rows,
// whatever was written meanwhile.
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

// A process that ends after the source was marked, and before the target was finished, leaves two databases that take
// no writes; the next process finishes the move.
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

// If the rest cannot be copied within the time for holding writes, writes go on.
func TestMoveHoldsWritesNoLonger(t *testing.T) {
	for _, m := range movers[:2] {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from, to := m.from(t), m.to(t)
			s, move := openStore(t, from), openMove(t, from, to)
			if _, err := move.Switch(t.Context(), 1, ignoreProgress); !errors.Is(err, errHeldTooLong) {
				t.Errorf("in a nanosecond: %v", err)
			}
			if _, err := movable(t.Context(), s, resources.Create, 1, "first"); err != nil {
				t.Errorf("a write after that: %v", err)
			}
		})
	}
}

// A target that was begun from one store is not filled from another one.
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
