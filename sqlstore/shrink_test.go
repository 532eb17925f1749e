package sqlstore

import (
	"reflect"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/resources"
)

// pageCache returns how many bytes of pages the connection that writes has cached.
func pageCache(t *testing.T, s *Store) (bytes int32) {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	out := new([2]int32) // now, and at most
	if err := s.db.driver.(*sqliteDriver).writer.Raw(func(conn any) error {
		db := uintptr(reflect.ValueOf(conn).Elem().FieldByName("db").Uint())
		if code := sqlite3.Xsqlite3_db_status(tls, db, sqlite3.SQLITE_DBSTATUS_CACHE_USED,
			uintptr(unsafe.Pointer(&out[0])), uintptr(unsafe.Pointer(&out[1])), 0); code != sqlite3.SQLITE_OK {
			t.Fatalf("sqlite3_db_status: %d", code)
		}
		bytes = out[0]
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// An idle store frees the pages that its connections have cached, and reads them again.
func TestDefragmentGivesBackPages(t *testing.T) {
	s := newSQLiteHarness(t).store
	first := mustCommit(t, s, createMaps(t, 4*defragmentStep)...)[0]
	before := pageCache(t, s)
	s.DefragmentHeap(true, func(int) bool { return true })
	if after := pageCache(t, s); before < 1<<20 || after > 256<<10 {
		t.Errorf("the writer keeps %d bytes of pages, and had %d", after, before)
	}
	mustCommit(t, s, createMap(t, "another"))
	if got := mustSnapshot(t, s, resources.At{}).Get(first.Namespace, first.Name); got == nil {
		t.Error("an object is gone")
	}
}
