package etcd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

// openedAll opens a file and reads all of its keys.
func openedAll(t *testing.T, path string) (keys int, err error) {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		return 0, err
	}
	err = s.Each(t.Context(), "", func(Entry) error { keys++; return nil })
	return keys, errors.Join(err, s.Close())
}

// manyPages returns a file that has pages of every kind.
func manyPages(t *testing.T, path string) []byte {
	t.Helper()
	var many []etcdtest.Put
	for i := range 600 {
		many = append(many, etcdtest.Put{Key: fmt.Sprintf("/registry/%d", i), Value: bytes.Repeat([]byte("v"), 40), Seconds: int64(i % 2)})
	}
	many = append(many, etcdtest.Put{Key: "/registry/big", Value: bytes.Repeat([]byte("v"), 20000)})
	if err := etcdtest.Bolt(path, many...); err != nil {
		t.Fatal(err)
	}
	if keys, err := openedAll(t, path); err != nil || keys != len(many) {
		t.Fatalf("%d keys, %v", keys, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An invalid file results in an error, and neither ends the process nor makes the reader loop for ever.
func TestHostileFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	data, size := manyPages(t, path), os.Getpagesize()
	kinds, refusals := map[uint16]int{}, 0
	try := func(_ string, at int, value []byte) {
		was := bytes.Clone(data[at : at+len(value)])
		copy(data[at:], value)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openedAll(t, path); err != nil {
			refusals++
		}
		copy(data[at:], was)
	}
	root := uint64(0)
	for page := 0; page < len(data)/size; page++ {
		begin := page * size
		kind := binary.LittleEndian.Uint16(data[begin+8:])
		if kinds[kind]++; binary.LittleEndian.Uint64(data[begin:]) != uint64(page) || kinds[kind] > 3 {
			continue // an overflow page, or one of many of its kind
		}
		if kind == branchPage {
			root = uint64(page)
		}
		for at := 0; at < 5*pageElement; at += 2 {
			for _, value := range []uint16{0, 1, 0xffff} {
				try(fmt.Sprintf("%d at byte %d of page %d", value, at, page), begin+at, binary.LittleEndian.AppendUint16(nil, value))
			}
		}
	}
	if kinds[branchPage] == 0 || kinds[leafPage] == 0 || kinds[freelistPage] == 0 {
		t.Fatalf("the file has pages of the kinds %v", kinds)
	}
	before := refusals
	try("a circle", int(root)*size+pageHeader+8, binary.LittleEndian.AppendUint64(nil, root))
	if refusals == before {
		t.Error("a tree with a circle was read")
	}
	if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openedAll(t, path); !errors.Is(err, errDamaged) {
		t.Errorf("half of a file: %v", err)
	}
	if refusals < 50 {
		t.Errorf("%d files were refused", refusals)
	}
}

// Files that bbolt has written, after deletions and in several steps, are accepted.
func TestGrownFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	manyPages(t, path)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for step := range 5 {
		if err := db.Update(func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte("key")).Cursor()
			for key, _ := c.First(); key != nil; key, _ = c.Next() {
				if key[7]%5 == byte(step) && step < 4 {
					if err := c.Delete(); err != nil {
						return err
					}
				}
			}
			_, err := tx.CreateBucketIfNotExists([]byte("meta"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if keys, err := openedAll(t, path); err != nil || keys == 0 || keys > 300 {
		t.Errorf("%d keys, %v", keys, err)
	}
}
