package servertest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// OnEveryDatabase runs a test on SQLite, on Postgres, and on two servers of one Postgres. The test gets a store for each server; they are closed at
// its end.
func OnEveryDatabase(t *testing.T, test func(t *testing.T, stores []*sqlstore.Store)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, []*sqlstore.Store{sqlitetest.Open(t)}) })
	c := startPostgres(t)
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint("Postgres, servers: ", n), func(t *testing.T) { test(t, openServers(t, c.URL(), n)) })
	}
}

// OnBothDatabases runs a test on SQLite and on Postgres, with these options for the store.
func OnBothDatabases(t *testing.T, o sqlstore.Options, test func(t *testing.T, store *sqlstore.Store)) {
	t.Helper()
	o.Logger = Quiet
	t.Run("SQLite", func(t *testing.T) {
		o.URL, o.Synchronous = "sqlite://"+filepath.Join(t.TempDir(), "rowlock.db"), "off"
		test(t, open(t, o))
	})
	t.Run("Postgres", func(t *testing.T) {
		o.URL, o.Synchronous = startPostgres(t).URL(), ""
		test(t, open(t, o))
	})
}

// OnServers runs a test on n servers of one Postgres.
func OnServers(t *testing.T, n int, test func(t *testing.T, stores []*sqlstore.Store)) {
	t.Helper()
	test(t, openServers(t, startPostgres(t).URL(), n))
}

func startPostgres(t *testing.T) *pgtest.Cluster {
	t.Helper()
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func openServers(t *testing.T, url string, n int) (stores []*sqlstore.Store) {
	t.Helper()
	for range n {
		stores = append(stores, open(t, sqlstore.Options{URL: url, Schema: fmt.Sprint("servers", n), Logger: Quiet}))
	}
	return stores
}

func open(t *testing.T, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
