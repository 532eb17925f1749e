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

// A database is refused whose pages lead back to the same ones: it would have rows without end.
func TestDamagedKine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	const many = 500
	if err := etcdtest.Kine(path); err != nil {
		t.Fatal(err)
	}
	madeOf(t, path, fmt.Sprintf(`WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT %d)
		INSERT INTO kine (name, deleted, lease, value) SELECT '/registry/' || n, 0, 0, zeroblob(100) FROM c`, many))
	if keys, err := openedAll(t, path); err != nil || keys != many {
		t.Fatalf("%d keys, %v", keys, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const root, cells, interior = 4096, 12, 5 // the second page, and where the list of its cells begins: https://sqlite.org/fileformat2.html#b_tree_pages
	if data[root] != interior {
		t.Fatalf("the root is a page of the kind %d", data[root])
	}
	cell := func(i int) []byte { return data[root+int(binary.BigEndian.Uint16(data[root+cells+2*i:])):] }
	copy(cell(1)[:4], cell(0)[:4])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openedAll(t, path); !errors.Is(err, errDamaged) {
		t.Errorf("with two ways to a page: %v", err)
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
