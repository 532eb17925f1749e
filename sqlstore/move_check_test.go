package sqlstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
)

// A plan says what would be copied, what was copied already, and why it cannot be copied, and leaves the target
// unchanged.
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
			check := func(begun, copied bool) {
				t.Helper()
				before := leftAt(t, to)
				plan, err := CheckMove(t.Context(), from, to)
				if err != nil || plan.Objects["configmaps"] != 2 || plan.Objects["leases.coordination.k8s.io"] != 1 || plan.Begun != begun || plan.Seen > 0 != copied || plan.Rows > 0 != copied {
					t.Fatalf("%+v, %v", plan, err)
				}
				if after := leftAt(t, to); after != before {
					t.Errorf("it was\n%s, and is\n%s", before, after)
				}
			}
			check(false, false)
			move, err := OpenMove(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			check(true, false)
			err = move.Copy(t.Context(), func(MoveProgress) {}) // the move still has the target
			if err := errors.Join(err, move.Close()); err != nil {
				t.Fatal(err)
			}
			check(true, true)
			other := m.from(t)
			openStore(t, other)
			if plan, err := CheckMove(t.Context(), other, to); !errors.Is(err, ErrNotEmpty) || plan.Begun {
				t.Errorf("of another source: %+v, %v", plan, err)
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

// leftAt returns the state of a target: the files beside it with their contents, or the tables.
func leftAt(t *testing.T, o Options) string {
	t.Helper()
	if !isPostgres(o.URL) {
		path, err := sqlitePath(o.URL)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		for _, file := range found {
			if strings.HasSuffix(file, "-shm") {
				continue // the list of readers is in this file
			}
			text, err := os.ReadFile(file)
			fmt.Fprintf(&said, "%s %x %v\n", file, sha256.Sum256(text), err)
		}
		return said.String()
	}
	conn, err := pgx.Connect(t.Context(), o.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // it was only read
	var said string
	err = conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(c.oid || ' ' || relname || ' ' || relfilenode, E'\n' ORDER BY c.oid), '') FROM pg_class c
		JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = coalesce(nullif($1, ''), current_schema())`, o.Schema).Scan(&said)
	if err != nil {
		t.Fatal(err)
	}
	return said
}
