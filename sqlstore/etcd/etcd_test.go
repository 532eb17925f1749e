package etcd

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

var puts = []etcdtest.Put{
	{Key: "/registry/b", Value: []byte("first")},
	{Key: "/registry/a", Value: []byte("a"), Seconds: 3600},
	{Key: "/registry/b", Value: []byte("second\x00\xff")},
	{Key: "/registry/gone", Value: []byte("x")},
	{Key: "/registry/gone"},
	{Key: "/registry/back", Value: []byte("x")},
	{Key: "/registry/back"},
	{Key: "/registry/back", Value: []byte("back")},
	{Key: "/other", Value: []byte("x")},
	{Key: "/registry/a/last"},
}

// The last value of each key is read, with its revision and its lifetime, and deleted keys are not.
func TestLastValues(t *testing.T) {
	want := []Entry{
		{"/registry/a", []byte("a"), 3, time.Hour},
		{"/registry/b", []byte("second\x00\xff"), 4, 0},
		{"/registry/back", []byte("back"), 9, 0},
	}
	for _, kind := range []struct {
		name  string
		write func(string, ...etcdtest.Put) error
	}{{"etcd", etcdtest.Bolt}, {"kine", etcdtest.Kine}} {
		t.Run(kind.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			if err := kind.write(path, puts...); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var have []Entry
			if err := s.Each(t.Context(), "/registry/", func(e Entry) error {
				have = append(have, e)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(have, want) || s.Revision() != int64(len(puts)+1) {
				t.Errorf("at %d: %+v", s.Revision(), have)
			}
		})
	}
}

// A snapshot that was changed after it was made is refused, and so is a file that is not a snapshot.
func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := errors.Join(etcdtest.Bolt(path, puts...), etcdtest.Sum(path)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	for name, content := range map[string][]byte{"changed": data, "cut off": data[:20], "empty": nil, "text": []byte("apiVersion: v1, and more than that of it")} {
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(t.Context(), path); err == nil {
			t.Errorf("%s: it was opened", name)
			_ = s.Close()
		} else if known := errors.Is(err, ErrUnknownFile); known != (name != "changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The files of a killed kine are read, including its write-ahead log, and are unchanged afterwards. The database of
// another program is refused.
func TestKineIsLeftAlone(t *testing.T) {
	running, path := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "db")
	if err := etcdtest.Kine(running, puts...); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", running)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "PRAGMA journal_mode = wal; UPDATE kine SET created = created + 1"); err != nil {
		t.Fatal(err)
	}
	left := map[string][]byte{}
	for _, suffix := range []string{"", "-wal"} {
		if left[suffix], err = os.ReadFile(running + suffix); err != nil || len(left[suffix]) == 0 {
			t.Fatal(len(left[suffix]), err)
		}
		if err := os.WriteFile(path+suffix, left[suffix], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || s.Revision() != int64(len(puts)+1) {
		t.Error(s.Revision(), err)
	}
	for suffix, before := range left {
		if after, err := os.ReadFile(path + suffix); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%q: %d bytes and an error %v, of %d bytes", suffix, len(after), err, len(before))
		}
	}
	if _, err := db.ExecContext(t.Context(), "ALTER TABLE kine RENAME TO other"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), running); !errors.Is(err, ErrUnknownFile) {
		t.Errorf("without the table: %v", err)
	}
}
