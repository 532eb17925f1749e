package etcd

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

// FuzzFiles changes bytes of a snapshot of etcd, or of kine's database, and cuts it: the file is refused, or its entries are read to the end. Those of
// a snapshot are parts of the file, and none is after its revision.
func FuzzFiles(f *testing.F) {
	var good [2][]byte
	for i, write := range []func(string, ...etcdtest.Put) error{etcdtest.Bolt, etcdtest.Kine} {
		path := filepath.Join(f.TempDir(), "db")
		if err := write(path, etcdtest.Put{Key: "/registry/a", Value: []byte("one")}, etcdtest.Put{Key: "/registry/b", Value: []byte("two"), Seconds: 9}); err != nil {
			f.Fatal(err)
		}
		var err error
		if good[i], err = os.ReadFile(path); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(false, uint32(0), []byte{}, uint32(0))
	f.Add(true, uint32(0), []byte{}, uint32(0))
	f.Add(false, uint32(os.Getpagesize()+8), []byte{0xff, 0xff}, uint32(0))
	f.Add(false, uint32(0), []byte{}, uint32(os.Getpagesize()))
	f.Add(true, uint32(100), []byte{0xff}, uint32(1))
	path := filepath.Join(f.TempDir(), "db")
	f.Fuzz(func(t *testing.T, kine bool, at uint32, change []byte, cut uint32) {
		data := bytes.Clone(good[0])
		if kine {
			data = bytes.Clone(good[1])
		}
		copy(data[at%uint32(len(data)):], change)
		data = data[:uint32(len(data))-cut%uint32(len(data))]
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), path)
		if err != nil {
			return
		}
		defer s.Close() //nolint:errcheck // the file is damaged
		_ = s.Each(t.Context(), "", func(e Entry) error {
			if !kine && (!bytes.Contains(data, []byte(e.Key)) || !bytes.Contains(data, e.Value) || e.Revision > s.Revision()) {
				t.Errorf("%+v is no entry of the file, whose revision is %d", e, s.Revision())
			}
			return nil
		})
	})
}
