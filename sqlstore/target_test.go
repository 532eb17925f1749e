package sqlstore

import (
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// A target that is given up leaves nothing where there was nothing, and one that is finished keeps its lock.
func TestTargetThatIsGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rowlock.db")
	options := Options{URL: "sqlite://" + path}
	for _, finish := range []bool{false, true} {
		if err := CheckTarget(t.Context(), options); err != nil {
			t.Fatal(err)
		}
		target, err := OpenTarget(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if finish {
			want = 2
			if _, err := target.Finish(t.Context(), 1, func(int64) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != want {
			t.Errorf("finished: %v, and there is %v, %v", finish, left, err)
		}
	}
	if err := CheckTarget(t.Context(), options); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a store that is there: %v", err)
	}
}

// If the same backup is restored twice, no resourceVersion is assigned twice.
func TestTargetOfABackupRestoredTwice(t *testing.T) {
	for kind, place := range map[string]func(*testing.T) Options{"SQLite": sqliteOptions, "Postgres": postgresOptions} {
		t.Run(kind, func(t *testing.T) {
			const backup = 5
			last := int64(backup)
			for range 3 {
				o := place(t)
				target, err := OpenTarget(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				said := int64(0)
				revision, err := target.Finish(t.Context(), backup, func(revision int64) error {
					said = revision
					return nil
				})
				if err := errors.Join(err, target.Close()); err != nil {
					t.Fatal(err)
				}
				made := mustCommit(t, openStore(t, o), createMap(t, "a"), createMap(t, "b"))
				if made[0].Revision != revision+1 || said != revision || revision <= last {
					t.Errorf("revision %d was given after %d, and %d was said; %d was given before", made[0].Revision, revision, said, last)
				}
				last = made[1].Revision
			}
		})
	}
}

// An object from outside never becomes one of the server's own rows, such as a token.
func TestTargetTakesNoRowOfTheServer(t *testing.T) {
	for kind, place := range map[string]func(*testing.T) Options{"SQLite": sqliteOptions, "Postgres": postgresOptions} {
		t.Run(kind, func(t *testing.T) {
			target, err := OpenTarget(t.Context(), place(t))
			if err != nil {
				t.Fatal(err)
			}
			row, err := target.ObjectRow(t.Context(), resources.Key{Resource: "tokens.rowlock.internal", Name: "a"}, createMap(t, "a").Draft, 2, 0)
			if !errors.Is(err, resources.ErrRefused) {
				t.Errorf("it would be stored as %v, %v", row, err)
			}
			if err := target.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// While a move is unfinished, no other target can be opened in its place, and the move can go on.
func TestTargetOfAMoveThatWasBegun(t *testing.T) {
	for kind, place := range map[string]func(*testing.T) Options{"SQLite": sqliteOptions, "Postgres": postgresOptions} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			from, to := sqliteOptions(t), place(t)
			s := openStore(t, from)
			if _, err := movable(t.Context(), s, resources.Create, 1, "first"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				move, err := OpenMove(t.Context(), from, to)
				if err != nil {
					t.Fatal(err)
				}
				if err := move.Close(); err != nil {
					t.Fatal(err)
				}
				if err := CheckTarget(t.Context(), to); !errors.Is(err, ErrMoving) {
					t.Errorf("it is looked at: %v", err)
				}
				target, err := OpenTarget(t.Context(), to)
				if !errors.Is(err, ErrMoving) {
					t.Errorf("it is opened: %v", err)
				}
				if err == nil {
					_ = target.Close() // it should not be there
				}
			}
		})
	}
}

// If no database can be created, that is known before, and the check leaves nothing behind.
func TestTargetThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	if err := CheckTarget(t.Context(), Options{URL: "sqlite://" + filepath.Join(dir, "a/b/rowlock.db")}); err != nil {
		t.Errorf("in a directory that can be made: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
	for _, path := range []string{"/proc/rowlock.db", "/proc/a/b/rowlock.db"} { // files cannot be created in /proc
		if err := CheckTarget(t.Context(), Options{URL: "sqlite://" + path}); err == nil || errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A role that may not create tables gets an error before, which names the missing right; without that error, it can
// create them.
func TestTargetOfARoleWithoutRights(t *testing.T) {
	t.Parallel()
	const noSchema, noRight, nowhere = "the role may not make it: it needs CREATE on the database", "it needs USAGE and CREATE on it", "search_path, the role may use none"
	admin := postgresOptions(t)
	role, schema := nameSQL(strings.ReplaceAll(admin.Schema, " ", "")+"weak"), nameSQL(admin.Schema)
	ask(t, admin, "CREATE ROLE "+role+" LOGIN")
	weak := admin
	weak.URL = strings.Replace(admin.URL, "user=postgres", "user="+strings.Trim(role, `"`), 1)
	inPath := weak // only by the search_path
	inPath.URL, inPath.Schema = weak.URL+"&search_path="+url.PathEscape(schema), ""
	database := nameSQL(ask(t, admin, "SELECT current_database()")[0][0])
	for _, step := range []struct{ statement, weak, inPath string }{
		{"SELECT 1", noSchema, nowhere},
		{"GRANT CREATE ON DATABASE " + database + " TO " + role, "", nowhere},
		{"CREATE SCHEMA " + schema, noRight, nowhere},
		{"GRANT CREATE ON SCHEMA " + schema + " TO " + role, noRight, nowhere},
		{"REVOKE CREATE ON SCHEMA " + schema + " FROM " + role, noRight, nowhere},
		{"GRANT USAGE ON SCHEMA " + schema + " TO " + role, noRight, noRight},
		{"REVOKE CREATE ON DATABASE " + database + " FROM " + role, noRight, noRight},
		{"GRANT CREATE ON SCHEMA " + schema + " TO " + role, "", ""},
	} {
		ask(t, admin, step.statement)
		for _, has := range []struct {
			options Options
			want    string
		}{{weak, step.weak}, {inPath, step.inPath}, {admin, ""}} {
			if err := CheckTarget(t.Context(), has.options); (err == nil) != (has.want == "") || err != nil && !strings.Contains(err.Error(), has.want) {
				t.Errorf("after %s, %s, schema %q: %v, want %q", step.statement, has.options.URL, has.options.Schema, err, has.want)
			}
			if has.want != nowhere {
				continue
			}
			if _, err := Open(t.Context(), has.options); err == nil || !strings.Contains(err.Error(), nowhere) { // a server returns the same error
				t.Errorf("after %s, a server: %v, want %q", step.statement, err, has.want)
			}
		}
	}
	for _, options := range []Options{weak, inPath} {
		target, err := OpenTarget(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What commands fill is durable when they end, also where clients of a database do not wait for that; other levels stay.
func TestTargetIsDurable(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"off": "local", "remote_write": "remote_write"} {
		o := postgresOptions(t)
		o.URL += map[bool]string{true: "&", false: "?"}[strings.Contains(o.URL, "?")] + "synchronous_commit=" + level
		target, err := OpenTarget(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := target.filler.(*postgresTarget).tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s for what is restored, %v", level, got, err)
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		moved, err := openMoveTarget(t.Context(), &o, "a source")
		if err != nil {
			t.Fatal(err)
		}
		if err := moved.do(t.Context(), func(tx *sql.Tx) error {
			return tx.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&got)
		}); err != nil || got != want {
			t.Errorf("%s is %s for what is moved, %v", level, got, err)
		}
		if err := moved.close(); err != nil {
			t.Fatal(err)
		}
	}
}
