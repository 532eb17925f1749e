package sqlstore

import (
	"database/sql"
	"os"
	"strings"
	"testing"
)

// If a file cannot be opened, or its rows are invalid, the error has a remedy.
func TestBrokenFile(t *testing.T) {
	for name, c := range map[string]struct {
		damage         func(path string) error
		opened, source string
	}{
		"cut off":        {func(path string) error { return os.Truncate(path, 8192) }, "restore the last good backup", "restore the last good backup"},
		"something else": {func(path string) error { return os.WriteFile(path, make([]byte, 8192), 0o600) }, "restore the last good backup", "restore the last good backup"},
		"with a row that is none": {func(path string) error {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.Exec("UPDATE objects SET revision = 'x'")
			return err
		}, "'rowlock verify' says", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := sqliteOptions(t)
			s := openStore(t, o)
			workedWith(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(strings.TrimPrefix(o.URL, "sqlite://")); err != nil {
				t.Fatal(err)
			}
			if broken, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.opened) {
				t.Errorf("opened: %v, %v", broken, err)
			}
			source, err := OpenSource(t.Context(), o)
			if c.source == "" {
				if err != nil {
					t.Fatal(err)
				}
				source.Close()
			} else if err == nil || !strings.Contains(err.Error(), c.source) {
				t.Errorf("to be verified: %v", err)
			}
		})
	}
}

// For a file system without memory maps, the error says so, since its code alone does not help.
func TestAdviceOfCodes(t *testing.T) {
	for code, want := range map[int]string{5386: "the file system has no maps", 10: "", 11: doDisk, 26: doDisk, 267: doDisk} {
		if got := adviceOf(code); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%d: %q", code, got)
		}
	}
}
