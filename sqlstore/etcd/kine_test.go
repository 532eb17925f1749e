package etcd

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

// madeOf writes a SQLite database by statements.
func madeOf(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A database in which kine's rows are computed, without end or of any size, is refused.
func TestComputedKine(t *testing.T) {
	const begin = "CREATE TABLE kine (id INTEGER PRIMARY KEY, name INTEGER, deleted INTEGER, lease INTEGER, "
	for name, statements := range map[string][]string{
		"a view without end": {"CREATE VIEW kine AS WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT n AS id, '/registry/a' AS name, 0 AS deleted, 0 AS lease, x'' AS value FROM c"},
		"a virtual table":    {"CREATE VIRTUAL TABLE kine USING fts5(id, name, deleted, lease, value)"},
		"a computed value":   {begin + "value BLOB AS (hex(zeroblob(8000000))))", "INSERT INTO kine VALUES (1, '/registry/a', 0, 0)"},
		"a stored one":       {begin + "value BLOB AS (x'00') STORED)", "INSERT INTO kine VALUES (1, '/registry/a', 0, 0)"},
	} {
		path := filepath.Join(t.TempDir(), "db")
		madeOf(t, path, statements...)
		if _, err := openedAll(t, path); !errors.Is(err, ErrUnknownFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A value of more than valueMost bytes is not read, one of valueMost is, whatever the row has besides.
func TestLongValuesOfKine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := etcdtest.Kine(path, puts...); err != nil {
		t.Fatal(err)
	}
	madeOf(t, path, fmt.Sprintf("INSERT INTO kine (name, deleted, lease, value, old_value) VALUES ('/registry/long', 0, 0, zeroblob(%d), zeroblob(%[1]d))", valueMost))
	if keys, err := openedAll(t, path); err != nil || keys != 5 {
		t.Errorf("%d keys, %v", keys, err)
	}
	for _, more := range []int{1, 2 << 20} {
		madeOf(t, path, fmt.Sprintf("UPDATE kine SET value = zeroblob(%d) WHERE name = '/registry/long'", valueMost+more))
		if _, err := openedAll(t, path); !errors.Is(err, errLongValue) {
			t.Errorf("of a value that is longer by %d bytes: %v", more, err)
		}
	}
}

// manyOfKine writes a database of kine with many keys, and an index.
func manyOfKine(t *testing.T, path string, many int) {
	t.Helper()
	if err := etcdtest.Kine(path); err != nil {
		t.Fatal(err)
	}
	madeOf(t, path, fmt.Sprintf(`WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT %d)
		INSERT INTO kine (name, deleted, lease, value) SELECT '/registry/' || n, 0, 0, zeroblob(100) FROM c`, many), "CREATE INDEX kine_name_index ON kine (name)")
	if keys, err := openedAll(t, path); err != nil || keys != many {
		t.Fatalf("%d keys, %v", keys, err)
	}
}

// repeatPage has the tree of a name in sqlite_schema lead to its first page twice. The format is that of
// https://sqlite.org/fileformat2.html#b_tree_pages.
func repeatPage(t *testing.T, path, tree string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	var page, size int
	if err := errors.Join(db.QueryRowContext(t.Context(), "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = $1", tree).Scan(&page, &size), db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const cells, interiorIndex, interiorTable = 12, 2, 5 // where the list of its cells begins, and kinds of pages
	root := data[(page-1)*size:]
	if root[0] != interiorIndex && root[0] != interiorTable {
		t.Fatalf("the root is a page of the kind %d", root[0])
	}
	cell := func(i int) []byte { return root[binary.BigEndian.Uint16(root[cells+2*i:]):] }
	copy(cell(1)[:4], cell(0)[:4])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A database is refused whose pages lead back to the same ones: it would have rows without end.
func TestDamagedKine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	manyOfKine(t, path, 500)
	repeatPage(t, path, "kine")
	_, err := openedAll(t, path)
	if !errors.Is(err, errDamaged) || strings.Contains(err.Error(), ".dump") {
		t.Errorf("with two ways to a page: %v", err)
	}
	repeatPage(t, path, "kine_name_index")
	if _, err := openedAll(t, path); !errors.Is(err, errDamaged) || strings.Contains(err.Error(), ".dump") {
		t.Errorf("with two ways to a page of the table and of the index: %v", err)
	}
}

// A database with a damaged index is refused, and the message says how to make a copy with all rows.
func TestDamagedIndexOfKine(t *testing.T) {
	const many = 500
	for name, damage := range map[string]func(t *testing.T, path string){
		"two ways to a page": func(t *testing.T, path string) { repeatPage(t, path, "kine_name_index") },
		"missing entries": func(t *testing.T, path string) {
			madeOf(t, path, "DROP INDEX kine_name_index", "CREATE INDEX kine_name_index ON kine (name) WHERE id < 10", "PRAGMA writable_schema = 1",
				"UPDATE sqlite_schema SET sql = 'CREATE INDEX kine_name_index ON kine (name)' WHERE name = 'kine_name_index'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			manyOfKine(t, path, many)
			damage(t, path)
			if _, err := openedAll(t, path); !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "run sqlite3 FILE .dump | sqlite3 COPY") {
				t.Errorf("damaged: %v", err)
			}
			dumped := filepath.Join(t.TempDir(), "db")
			madeOf(t, path, "ATTACH DATABASE '"+dumped+"' AS dumped", "CREATE TABLE dumped.kine AS SELECT * FROM kine", "CREATE INDEX dumped.kine_name_index ON kine (name)")
			if keys, err := openedAll(t, dumped); err != nil || keys != many {
				t.Errorf("in the copy: %d keys, %v", keys, err)
			}
		})
	}
}

// The lifetime of a key has bounds, whatever its lease says: a key with a lease is never there for ever.
func TestLifetimesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct {
		seconds int64
		etcd    time.Duration // a lease has an end
		kine    time.Duration // 0, and less, is no lease
	}{
		{5, 5 * time.Second, 5 * time.Second}, {math.MaxInt64, maxSeconds * time.Second, maxSeconds * time.Second},
		{math.MaxInt64/int64(time.Second) + 1, maxSeconds * time.Second, maxSeconds * time.Second}, {-7, time.Second, 0},
	} {
		bolt, kine := filepath.Join(dir, fmt.Sprint("bolt", i)), filepath.Join(dir, fmt.Sprint("kine", i))
		if err := errors.Join(etcdtest.Bolt(bolt, etcdtest.Put{Key: "/a", Value: []byte("a"), Seconds: 9}), etcdtest.Kine(kine, etcdtest.Put{Key: "/a", Value: []byte("a"), Seconds: c.seconds})); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(bolt, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		lease := protowire.AppendVarint(protowire.AppendTag(nil, leaseIDField, protowire.VarintType), 2)
		lease = protowire.AppendVarint(protowire.AppendTag(lease, leaseTTLField, protowire.VarintType), uint64(c.seconds))
		if err := db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("lease")).Put(binary.BigEndian.AppendUint64(nil, 2), lease)
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]time.Duration{bolt: c.etcd, kine: c.kine} {
			s, err := Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Each(t.Context(), "", func(e Entry) error {
				if e.TTL != want {
					t.Errorf("%s: of %d seconds, the key has %v, want %v", strings.TrimRight(filepath.Base(path), "0123456789"), c.seconds, e.TTL, want)
				}
				return nil
			}), s.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
