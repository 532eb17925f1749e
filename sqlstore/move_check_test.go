package sqlstore

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// A plan says what would be copied, what was copied already, and why it cannot be, and leaves the target as it was.
func TestCheckMove(t *testing.T) {
	for _, m := range movers {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from, to := m.from(t), m.to(t)
			s := openStore(t, from)
			for i := range 3 {
				if _, err := movable(t.Context(), s, resources.Create, i, "x"); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the first leaves nothing
				plan, err := CheckMove(t.Context(), from, to)
				if err != nil || plan.Objects["configmaps"] != 2 || plan.Objects["leases.coordination.k8s.io"] != 1 || plan.Seen != 0 {
					t.Fatalf("%+v, %v", plan, err)
				}
			}
			move, err := OpenMove(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			err = move.Copy(t.Context(), func(MoveProgress) {})
			if err := errors.Join(err, move.Close()); err != nil {
				t.Fatal(err)
			}
			if plan, err := CheckMove(t.Context(), from, to); err != nil || plan.Seen != plan.Revision || plan.Seen == 0 {
				t.Errorf("after a copy: %+v, %v", plan, err)
			}
			other := m.from(t)
			openStore(t, other)
			if _, err := CheckMove(t.Context(), other, to); !errors.Is(err, ErrNotEmpty) {
				t.Errorf("of another source: %v", err)
			}
			if _, err := openMove(t, from, to).Switch(t.Context(), 0, func(MoveProgress) {}); err != nil {
				t.Fatal(err)
			}
			if _, err := CheckMove(t.Context(), from, to); !errors.Is(err, ErrAlreadyMoved) {
				t.Errorf("of what has moved: %v", err)
			}
		})
	}
}
