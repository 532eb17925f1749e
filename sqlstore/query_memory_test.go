package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// boundedVariable makes the test binary run queries that take too much memory on the named database: the bound is per
// process.
const boundedVariable = "ROWLOCK_TEST_BOUNDED"

// askTooMuch runs queries that take too much memory: to sort, to group, to join. Each is refused, and later queries are
// answered.
func askTooMuch(path string) (err error) {
	if !BoundQueries() {
		return errors.New("SQLite was in use before")
	}
	source, err := OpenSource(context.Background(), Options{URL: "sqlite://" + path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	ask := func(text string) error {
		_, err := source.Query(context.Background(), QueryOptions{Text: text, MaxRows: 1, Columns: func([]string) error { return nil },
			Row: func([]any) error { return nil }})
		return err
	}
	const rows = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM r WHERE x < 600) "
	for _, text := range []string{
		rows + "SELECT y FROM (SELECT hex(zeroblob(500000)) || x AS y FROM r) ORDER BY y",
		rows + "SELECT count(*) FROM (SELECT DISTINCT hex(zeroblob(500000)) || x AS y FROM r)",
		rows + "SELECT max(length(y)), y FROM (SELECT group_concat(hex(zeroblob(500000))) AS y FROM r GROUP BY x % 10) GROUP BY y",
	} {
		if err := ask(text); !errors.Is(err, ErrQueryTooLarge) {
			return errors.Join(errors.New(text+" is not refused"), err)
		}
		if err := ask(rows + "SELECT y FROM (SELECT hex(zeroblob(500)) || x AS y FROM r) ORDER BY y"); err != nil {
			return fmt.Errorf("after %s: %w", text, err)
		}
	}
	return nil
}

// No query can take all memory of a machine.
func TestQueryMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rowlock.db")
	mustOpen(t, Options{URL: "sqlite://" + path}).Close()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), boundedVariable+"="+path)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
