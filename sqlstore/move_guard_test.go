package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// ask runs a statement in a database of a store.
func ask(t *testing.T, o Options, statement string) [][]string {
	t.Helper()
	rows, err := sqltest.Ask(t.Context(), o.URL, o.Schema, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return rows
}

// A role that does not own the source's tables moves nothing. Objects that a member of the owner's role creates there
// belong to the owner, so any server can read them.
func TestMoveByAnotherRole(t *testing.T) {
	t.Parallel()
	admin := postgresOptions(t)
	owner, other := strings.ReplaceAll(admin.Schema, " ", "")+" owner", strings.ReplaceAll(admin.Schema, " ", "")+" other"
	as := func(role string) Options {
		o := admin
		o.URL = strings.Replace(o.URL, "user=postgres", "user="+strings.ReplaceAll(role, " ", "%20"), 1)
		return o
	}
	for _, statement := range []string{"CREATE ROLE %[2]s LOGIN", "CREATE ROLE %[3]s LOGIN", "CREATE SCHEMA %[1]s AUTHORIZATION %[2]s"} {
		ask(t, admin, fmt.Sprintf(statement, nameSQL(admin.Schema), nameSQL(owner), nameSQL(other)))
	}
	s := openStore(t, as(owner))
	for _, statement := range []string{"GRANT USAGE, CREATE ON SCHEMA %s TO %s", "GRANT ALL ON ALL TABLES IN SCHEMA %s TO %s"} {
		ask(t, admin, fmt.Sprintf(statement, nameSQL(admin.Schema), nameSQL(other)))
	}
	if _, err := movable(t.Context(), s, resources.Create, 1, "first"); err != nil {
		t.Fatal(err)
	}
	to := sqliteOptions(t)
	if _, err := OpenMove(t.Context(), as(other), to); !errors.Is(err, ErrNotOwner) {
		t.Errorf("by another role: %v", err)
	}
	if err := prepareFence(t.Context(), new(as(other))); !errors.Is(err, ErrNotOwner) {
		t.Errorf("what is made by another role: %v", err)
	}
	if _, err := movable(t.Context(), s, resources.Update, 1, "second"); err != nil {
		t.Errorf("a write after that: %v", err)
	}
	move, err := OpenMove(t.Context(), admin, to)
	if err != nil {
		t.Fatal(err)
	}
	defer move.Close()
	if _, err := move.Switch(t.Context(), slowly, ignoreProgress); err != nil {
		t.Fatal(err)
	}
	if rows := ask(t, admin, "SELECT tableowner FROM pg_tables WHERE tablename = 'moved' AND schemaname = "+textSQL(admin.Schema)); fmt.Sprint(rows) != fmt.Sprint([][]string{{owner}}) {
		t.Errorf("the mark belongs to %q", rows)
	}
	if _, err := movable(t.Context(), s, resources.Update, 1, "third"); !errors.Is(err, resources.ErrMoved) {
		t.Errorf("a write after the move: %v", err)
	}
	if rows := ask(t, as(other), "SELECT count(*) FROM moved"); rows[0][0] != "1" {
		t.Errorf("another server sees %q", rows)
	}
	if _, err := sqltest.Ask(t.Context(), as(other).URL, admin.Schema, "INSERT INTO changes SELECT * FROM changes"); err == nil || !strings.Contains(err.Error(), movedText) {
		t.Errorf("another server writes: %v", err)
	}
}

// A target that is not empty does not prove that the store has moved there, even if that was begun.
func TestMoveAfterTheTargetWasReplaced(t *testing.T) {
	for _, m := range movers[:2] {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from, to := m.from(t), m.to(t)
			s := openStore(t, from)
			for i := range 9 {
				if _, err := movable(t.Context(), s, resources.Create, i, "first"); err != nil {
					t.Fatal(err)
				}
			}
			move, err := OpenMove(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := move.Switch(t.Context(), slowly, ignoreProgress); err != nil {
				t.Fatal(err)
			}
			if err := move.Close(); err != nil {
				t.Fatal(err)
			}
			remove := func() {
				if isPostgres(to.URL) {
					ask(t, to, "DROP SCHEMA "+nameSQL(to.Schema)+" CASCADE")
					return
				}
				path := strings.TrimPrefix(to.URL, "sqlite://")
				for _, name := range []string{path, path + "-wal", path + "-shm"} {
					if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			remove()
			another := m.from(t)
			openStore(t, another)
			begun, err := OpenMove(t.Context(), another, to)
			if err != nil {
				t.Fatal(err)
			}
			if err := begun.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenMove(t.Context(), from, to); !errors.Is(err, ErrNotEmpty) || errors.Is(err, ErrAlreadyMoved) {
				t.Errorf("where a part of another store is: %v", err)
			}
			remove()
			if !isPostgres(to.URL) {
				if err := os.Remove(strings.TrimPrefix(to.URL, "sqlite://") + moving); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := movable(t.Context(), openStore(t, to), resources.Create, 1, "of a new store"); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenMove(t.Context(), from, to); err == nil || errors.Is(err, ErrAlreadyMoved) { // on SQLite, a server has the file
				t.Errorf("where a new store is: %v", err)
			}
		})
	}
}

// A target that cannot be finished is detected before the source is marked: the source stays a store.
func TestMoveToWhatWasTaken(t *testing.T) {
	for _, m := range movers[:2] {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			from, to := m.from(t), m.to(t)
			s, move := openStore(t, from), openMove(t, from, to)
			if isPostgres(to.URL) {
				ask(t, to, "UPDATE meta SET revision = 7")
			} else if err := os.WriteFile(strings.TrimPrefix(to.URL, "sqlite://"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := move.Switch(t.Context(), slowly, ignoreProgress); !errors.Is(err, ErrNotEmpty) {
				t.Errorf("the switch: %v", err)
			}
			if _, err := movable(t.Context(), s, resources.Create, 1, "first"); err != nil {
				t.Errorf("a write to the source after that: %v", err)
			}
		})
	}
}

// A source that has moved says so, and is complete; a database that is being filled is not a source.
func TestSourceThatHasMoved(t *testing.T) {
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
			defer move.Close()
			if _, err := OpenSource(t.Context(), to); !errors.Is(err, ErrMoving) {
				t.Errorf("the target: %v", err)
			}
			if _, err := move.Switch(t.Context(), slowly, ignoreProgress); err != nil {
				t.Fatal(err)
			}
			source, err := OpenSource(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			if place, err := to.place(); err != nil || source.State().Moved != place {
				t.Errorf("it has moved to %q, %v", source.State().Moved, err)
			}
			if _, err := source.Verify(t.Context(), VerifyOptions{Found: func(f Finding) { t.Errorf("%s: %s: %s", f.Where, f.What, f.Do) }}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server of a release without moves takes the refusal of a SQLite file for an error of the database, and not of the
// request.
func TestMovedFileIsUnavailable(t *testing.T) {
	t.Parallel()
	from, to := sqliteOptions(t), sqliteOptions(t)
	openStore(t, from)
	move, err := OpenMove(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	defer move.Close()
	if _, err := move.Switch(t.Context(), slowly, ignoreProgress); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", strings.TrimPrefix(from.URL, "sqlite://"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"UPDATE meta SET revision = 9", "INSERT INTO changes (revision) VALUES (9)"} {
		_, err := db.ExecContext(context.Background(), statement)
		var e *sqlite.Error
		if !errors.As(err, &e) || e.Code() != sqlite3.SQLITE_ERROR || refused(err) || !isMoved(err) || !strings.Contains(err.Error(), movedText+strings.TrimPrefix(to.URL, "sqlite://")) {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
