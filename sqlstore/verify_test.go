package sqlstore

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowlock/rowlock/resources"
)

// workedWith fills a store with pruned changes, needed changes below the floor, and creates, updates and deletes in
// history.
func workedWith(t *testing.T, s *Store) {
	t.Helper()
	put := func(op resources.Op, name, value string) int64 {
		t.Helper()
		w := resources.Write{Op: op, Key: resources.Key{Resource: "configmaps", Namespace: "default", Name: name},
			Draft: resources.Draft{Data: fmt.Appendf(nil, `{"metadata":{"resourceVersion":"0"},"v":%q}`, value)}}
		w.Draft.RevisionStart, w.Draft.RevisionEnd, _ = resources.RevisionSpan(w.Draft.Data)
		if op != resources.Create {
			o, err := s.Get(t.Context(), w.Key, resources.At{Match: resources.MostRecent})
			if err != nil {
				t.Fatal(err)
			}
			w.From = o.Revision
		}
		written, err := s.Commit(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		return written[0].Revision
	}
	for _, name := range []string{"old", "a", "b", "c"} {
		put(resources.Create, name, "1")
	}
	floor := put(resources.Update, "a", "2")
	put(resources.Update, "a", "3") // its object before is going to be below the floor
	// Not by age: the janitor would prune as well, perhaps before that update.
	if ran, err := s.janitor.task(func() error { _, err := s.db.prune(floor); return err }); err != nil || !ran {
		t.Fatal(ran, err)
	}
	put(resources.Update, "a", "4")
	put(resources.Update, "b", "2")
	put(resources.Delete, "c", "")
	put(resources.Create, "c", "again")
	put(resources.Delete, "b", "")
	put(resources.Create, "d", "1")
}

// damage is a change of a database, and the finding that Verify must return. A case with an empty statement is not for
// that database.
type damage struct{ name, sqlite, postgres, finds string }

// nothing is the result of Verify for a sound database.
const nothing = "nothing"

func both(name, statement, finds string) damage { return damage{name, statement, statement, finds} }

const ofA, ofD = `namespace = 'default' AND name = 'a'`, `namespace = 'default' AND name = 'd'`

// historyStatements matches the statements that repair the object history.
var historyStatements = regexp.MustCompile(`(DELETE FROM revisions|UPDATE recording) .*`)

// emptied leaves a store without objects and changes.
const emptied = "DELETE FROM objects; DELETE FROM changes; UPDATE meta SET history_bytes = 0; "

var damages = []damage{
	both("none", "SELECT 1", nothing),
	{"what Litestream leaves in a file", "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)", "", nothing},
	both("an object is lost", "DELETE FROM objects WHERE "+ofA, "objects configmaps/default/a: is missing"),
	{"an object is another one", "UPDATE current SET data = (SELECT replace(data, '\"4\"', '\"5\"') FROM objects WHERE " + ofA + ") WHERE " + ofA,
		"UPDATE objects SET data = replace(data, '\"4\"', '\"5\"') WHERE " + ofA, "objects configmaps/default/a: is not what the log has"},
	{"an object has other fields", "UPDATE current SET data = (SELECT data FROM objects WHERE " + ofA + "), fields = '{\"x\":\"y\"}' WHERE " + ofA,
		"UPDATE objects SET fields = '{\"x\":\"y\"}' WHERE " + ofA, "objects configmaps/default/a: is not what the log has"},
	{"the data of an object are lost", "DELETE FROM changes WHERE name = 'old'", "", "objects configmaps/default/old: is not JSON"},
	both("an object is an older one", "UPDATE objects SET (revision, data) = (SELECT revision, data FROM changes WHERE data LIKE '%\"3\"%') WHERE "+ofA,
		"objects configmaps/default/a: has revision"),
	both("a deleted object is there", "INSERT INTO objects (resource, namespace, name, revision, data) SELECT resource, namespace, name, revision, data FROM changes WHERE op = 'delete' AND name = 'b'",
		"objects configmaps/default/b: is there, and by the log it was deleted"),
	both("an object is not JSON", "UPDATE objects SET data = substr(data, 1, 20) WHERE name = 'old'", "objects configmaps/default/old: is not JSON"),
	{"an object is not UTF-8", `UPDATE objects SET data = replace(data, '"1"', '"' || CAST(x'ff' AS TEXT) || '"') WHERE name = 'old'`, "", "objects configmaps/default/old: has bytes that are not UTF-8"},
	both("fields are not JSON", "UPDATE objects SET fields = '{' WHERE name = 'old'", "objects configmaps/default/old: has selectable fields that are not JSON"),
	both("an object has another revision inside", "UPDATE objects SET revision = revision + 1 WHERE name = 'old'", "resourceVersion"),
	both("an object is ahead of the counter", "UPDATE objects SET revision = 1000000 WHERE "+ofA, "revisions would be given twice"),
	both("an object that the log does not know", "UPDATE changes SET name = 'e' WHERE "+ofD, "of which the log knows nothing"),
	both("a change is lost", "DELETE FROM changes WHERE data LIKE '%\"3\"%'", "what is between is lost"),
	both("the last change is lost", "DELETE FROM changes WHERE "+ofD, ""),
	both("a change is not JSON", "UPDATE changes SET data = 'x' WHERE "+ofD, ": is not JSON"),
	both("a change of another object", "UPDATE changes SET name = 'old' WHERE data LIKE '%\"3\"%'", "changes"),
	both("a create of what is there", "UPDATE changes SET op = 'create' WHERE data LIKE '%\"4\"%'", "creates what was there"),
	both("a change without the one before it", "UPDATE changes SET prev_revision = NULL WHERE data LIKE '%\"4\"%'", "does not say what was before it"),
	both("a change that continues another one", "UPDATE changes SET prev_revision = prev_revision - 1 WHERE data LIKE '%\"4\"%'", "and the change before it is"),
	both("a change continues what the log should have", "UPDATE changes SET prev_revision = revision - 1 WHERE op = 'update' AND name = 'b'", "which the log should have"),
	both("what an update needs below the floor is lost", "DELETE FROM changes WHERE revision <= (SELECT floor FROM meta)", "has no object before it"),
	{"history begins after its end", "UPDATE meta SET floor = 1000000", "", "history begins at revision"},
	both("a counter beyond all revisions", emptied+"UPDATE meta SET floor = 4611686018427387905, revision = 4611686018427387905", "the counter is at 4611686018427387905, to which"),
	both("a counter that ran over", emptied+"UPDATE meta SET floor = -9223372030420995929, revision = -9223372030420995929", "the counter is at -9223372030420995929, to which"),
	both("an empty store that was restored", emptied+"UPDATE meta SET floor = 1838000000000000, revision = 1838000000000000", nothing),
	{"the counter is behind", "UPDATE meta SET revision = revision - 1", "", "and the counter is at"},
	{"the counter is ahead", "UPDATE meta SET revision = revision + 1", "", "and the counter is at"},
	{"the size of history", "UPDATE meta SET history_bytes = history_bytes + 1", "", "bytes of history"},
	both("an index is gone", "DROP INDEX changes_resource", "changes_resource"),
	{"an index is another one", "DROP INDEX changes_resource; CREATE INDEX changes_resource ON changes (resource)",
		"DROP INDEX changes_resource; CREATE INDEX changes_resource ON changes (resource, revision) WHERE revision > 5", "changes_resource"},
	{"a column is gone", "ALTER TABLE changes DROP COLUMN prev_fields", "ALTER TABLE objects DROP COLUMN expires", "has not, or not so"},
	{"a trigger", "CREATE TRIGGER t AFTER DELETE ON recording BEGIN DELETE FROM changes; END", "", "did not make"},
	{"a later column is gone", "", "ALTER TABLE changes DROP COLUMN author", "has not, or not so: column changes.author text"},
	{"tables of an earlier version", "", "UPDATE schema_migrations SET version = 2; ALTER TABLE changes DROP COLUMN author", nothing},
	{"another trigger", "", "CREATE TRIGGER t BEFORE UPDATE ON objects FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		"did not make: trigger t on objects"},
	{"a rule", "", "CREATE RULE r AS ON DELETE TO changes DO INSTEAD NOTHING", "did not make: rule r on changes"},
	{"another constraint", "", "ALTER TABLE objects ADD CONSTRAINT k CHECK (revision < 1000000)", "did not make: constraint k on objects"},
	{"a constraint is gone", "", "ALTER TABLE meta DROP CONSTRAINT meta_id_check", "has not, or not so: constraint meta_id_check on meta"},
	{"row security", "", "ALTER TABLE objects ENABLE ROW LEVEL SECURITY; ALTER TABLE objects FORCE ROW LEVEL SECURITY", "row security on objects"},
	{"row security for others", "", "ALTER TABLE objects ENABLE ROW LEVEL SECURITY", nothing},
	{"outside of the log", "", "ALTER TABLE changes SET UNLOGGED", "UNLOGGED on the table changes"},
	{"a column of another type", "", "ALTER TABLE objects ALTER COLUMN data TYPE varchar", "has not, or not so: column objects.data text NOT NULL"},
	{"a column that may be null", "", "ALTER TABLE objects ALTER COLUMN data DROP NOT NULL", "has not, or not so: column objects.data text NOT NULL"},
	{"a column in another order", "", `ALTER TABLE changes ALTER COLUMN namespace TYPE text COLLATE "POSIX"`, `has not, or not so: column changes.namespace text COLLATE "C" NOT NULL`},
	{"a time that is text", "UPDATE changes SET at = 'yesterday' WHERE " + ofD, "", "has row 13 of changes, in which at is of the type text"},
	{"data that are bytes", "UPDATE current SET data = CAST(data AS BLOB) WHERE " + ofD, "", "of current, in which data is of the type blob"},
	both("an author that is not JSON", "UPDATE changes SET author = 'jane' WHERE "+ofD, "(configmaps/default/d): says wrongly who made it"),
	both("the tables are dirty", "UPDATE schema_migrations SET dirty = true", "begun and not finished"),
	both("the tables are of a later version", "UPDATE schema_migrations SET version = version + 1", "knows versions up to"),
	{"two versions", "DROP INDEX version_unique; INSERT INTO schema_migrations SELECT version - 1, dirty FROM schema_migrations",
		"INSERT INTO schema_migrations SELECT version - 1, dirty FROM schema_migrations", "and not one"},
	{"an object twice", "", "ALTER TABLE objects DROP CONSTRAINT objects_pkey; INSERT INTO objects SELECT * FROM objects WHERE name = 'a'", "is there twice"},
	lacks("objects_pkey", anObject),
	lacks("objects_expires", anObject),
	lacks("changes_pkey", aChange),
	lacks("changes_resource", aChange),
	lacks("revisions_pkey", aRevision),
	lacks("revisions_object", aRevision),
	lacks("revisions_at", aRevision),
	lacks("revisions_trash", aRevision),
}

// Rows of the tables.
const (
	anObject  = `INSERT INTO objects (resource, namespace, name, revision, expires, data) VALUES ('x', '', 'y', 1000, 4000000000000, '{}')`
	aChange   = `INSERT INTO changes (revision, at, size, op, resource, namespace, name, data) VALUES (1000, 0, 0, 'create', 'x', '', 'y', '{}')`
	aRevision = `INSERT INTO revisions (revision, at, size, op, resource, namespace, name, uid, data) VALUES (1000, 0, 0, 'delete', 'x', '', 'y', 'u', '')`
)

// lacks is the damage that an index of Postgres does not have a row of its table.
func lacks(index, insert string) damage {
	return damage{"a row that " + index + " does not have", "", `UPDATE pg_index SET indisready = false WHERE indexrelid = '` + index + `'::regclass; ` + insert +
		`; UPDATE pg_index SET indisready = true WHERE indexrelid = '` + index + `'::regclass`, "the index " + index + " has other rows"}
}

// Each kind of damage is found, and nothing is found if there is none.
func TestVerifyFindsDamage(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		workedWith(t, h.store)
		db, err := sql.Open("sqlite", h.path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		verifyDamaged(t, db, "", damages, func(d damage) string { return d.sqlite })
		verifyWhole(t, h.options())
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		for range unseenBefore + 1 { // until then, every update has the object before it, and nothing is kept below the floor
			h.store.peers.db.modernize()
		}
		workedWith(t, h.store)
		o := h.options()
		config, err := postgresConfig(&o)
		if err != nil {
			t.Fatal(err)
		}
		db := stdlib.OpenDB(*config.ConnConfig)
		defer db.Close()
		verifyDamaged(t, db, setSearchPath(h.schema), damages, func(d damage) string { return d.postgres })
		verifyWhole(t, o)
		if err := prepareFence(t.Context(), &o); err != nil { // of an unfinished move
			t.Fatal(err)
		}
		verifyWhole(t, o)
	})
	t.Run("Postgres, with updates for servers of the version before", func(t *testing.T) {
		h := newPostgresHarness(t)
		workedWith(t, h.store)
		verifyWhole(t, h.options())
	})
}

// verifyWhole verifies a database while its server runs, as commands do.
func verifyWhole(t *testing.T, o Options) {
	t.Helper()
	s, err := OpenSource(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	result, err := s.Verify(t.Context(), VerifyOptions{Found: func(f Finding) { t.Errorf("%s: %s", f.Where, f.What) }})
	if err != nil || result.Objects != 4 || result.Changes < 7 {
		t.Errorf("looked at %+v, %v", result, err)
	}
}

// verifyDamaged makes each damage in a transaction, verifies in the same transaction, and rolls it back.
func verifyDamaged(t *testing.T, db *sql.DB, prelude string, damages []damage, of func(damage) string) {
	for _, d := range damages {
		statements := of(d)
		if statements == "" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // the connection or transaction is no longer needed
			for _, statement := range append([]string{prelude}, strings.Split(statements, "; ")...) {
				if statement == "" || statement == "END" {
					continue
				}
				if strings.Contains(statement, " BEGIN ") { // this part was cut off
					statement += "; END"
				}
				if _, err := tx.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			s := &Source{tx: tx, postgres: prelude != ""}
			if err := s.readState(t.Context()); err != nil {
				t.Fatal(err)
			}
			var found, todo []string
			result, err := s.Verify(t.Context(), VerifyOptions{Found: func(f Finding) {
				found = append(found, f.Where+": "+f.What)
				if statements := historyStatements.FindString(f.Do); statements != "" {
					todo = append(todo, strings.Split(statements, "; ")...)
				}
				if f.Do == "" {
					t.Errorf("%s: nothing to do", f.Where)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			all := strings.Join(found, "\n")
			if whole := d.finds == nothing; whole != (len(found) == 0) || (!whole && !strings.Contains(all, d.finds)) || result.Findings != len(found) {
				t.Errorf("found:\n%s\nwant: %s", all, d.finds)
			}
			for _, statement := range todo {
				if _, err := tx.ExecContext(t.Context(), statement); err != nil {
					t.Errorf("%s: %v", statement, err)
				}
			}
			if after, err := s.Verify(t.Context(), VerifyOptions{Found: func(Finding) {}}); todo != nil && (err != nil || after.Findings > 0 || after.Revisions == 0) {
				t.Errorf("after what there was to do: %+v, %v", after, err)
			}
			if d.name == "none" && (result.Objects != 4 || result.Changes < 7) {
				t.Errorf("looked at %+v", result)
			}
		})
	}
}

// Pages of a SQLite file that changed places are found.
func TestVerifyFindsDamagedPages(t *testing.T) {
	h := newSQLiteHarness(t)
	workedWith(t, h.store)
	h.close(t)
	defer h.open(t)
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	var root, other, size int64
	const pages = `SELECT (SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_current_1'),
(SELECT rootpage FROM sqlite_schema WHERE name = 'changes_resource'), page_size FROM pragma_page_size`
	if err := db.QueryRow(pages).Scan(&root, &other, &size); err != nil {
		t.Fatal(err)
	}
	db.Close()
	data, err := os.ReadFile(h.path)
	if err != nil {
		t.Fatal(err)
	}
	whole := append([]byte(nil), data...)
	copy(data[(root-1)*size:root*size], whole[(other-1)*size:other*size])
	if err := os.WriteFile(h.path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var found []Finding
	func() {
		s, err := OpenSource(t.Context(), h.options())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Verify(t.Context(), VerifyOptions{Found: func(f Finding) { found = append(found, f) }}); err != nil {
			t.Fatal(err)
		}
	}()
	if len(found) == 0 {
		t.Error("nothing was found")
	}
	if err := os.WriteFile(h.path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
}

// testSealed begins data that no provider has encrypted.
const testSealed = sealedPrefix + "test:v1:key:"

// Encrypted rows are counted if there are no keys, and checked if there are.
func TestVerifyEncrypted(t *testing.T) {
	h := newSQLiteHarness(t)
	workedWith(t, h.store)
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // the connection or transaction is no longer needed
	for _, name := range []string{"a", "old"} {
		var data string
		if err := tx.QueryRow("SELECT data FROM objects WHERE name = $1", name).Scan(&data); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("UPDATE objects SET data = $1 WHERE name = $2", encodeSealed([]byte(testSealed+data)), name); err != nil {
			t.Fatal(err)
		}
	}
	s := &Source{tx: tx}
	if err := s.readState(t.Context()); err != nil {
		t.Fatal(err)
	}
	verify := func(plain func(context.Context, Row) (Row, error)) (Verified, []string) {
		var found []string
		result, err := s.Verify(t.Context(), VerifyOptions{Plain: plain, Found: func(f Finding) { found = append(found, f.Where+": "+f.What) }})
		if err != nil {
			t.Fatal(err)
		}
		return result, found
	}
	if result, found := verify(nil); result.Encrypted != 4 || len(found) > 0 {
		t.Errorf("without the keys: %+v, %v", result, found)
	}
	opened := 0
	opens := func(_ context.Context, r Row) (Row, error) {
		encoded, encrypted := strings.CutPrefix(r.Data, testSealed)
		if !encrypted {
			return r, nil
		}
		opened++
		data, err := base64.RawStdEncoding.DecodeString(encoded)
		r.Data = string(data)
		return r, err
	}
	if result, found := verify(opens); result.Encrypted != 0 || len(found) > 0 || opened != 4 {
		t.Errorf("with the keys: %+v, %v", result, found)
	}
	if _, found := verify(func(_ context.Context, r Row) (Row, error) {
		if r.IsEncrypted() {
			return r, errors.New("no key")
		}
		return r, nil
	}); len(found) != 4 || !strings.Contains(found[0], "cannot be decrypted") {
		t.Errorf("with other keys: %v", found)
	}
	for _, d := range []struct{ set, finds string }{
		{"fields = '{}'", "has selectable fields in clear"},
		{"data = 'k8s:enc:aesgcm:v1:key1:AAAA'", "too short to be an object"},
		{"data = data || '='", "not in base64"},
	} {
		if _, err := tx.Exec("SAVEPOINT damage; UPDATE objects SET " + d.set + " WHERE name = 'a'"); err != nil {
			t.Fatal(err)
		}
		if _, found := verify(nil); len(found) != 2 || !strings.Contains(found[0], d.finds) {
			t.Errorf("with %s, without the keys: %v", d.set, found)
		}
		if _, err := tx.Exec("ROLLBACK TO damage"); err != nil {
			t.Fatal(err)
		}
	}
}
