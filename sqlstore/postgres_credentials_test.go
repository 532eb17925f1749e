package sqlstore

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A running server reads a changed password from its file, and need not be restarted.
func TestPasswordChanged(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	root := admin(t, c.URL())
	do := func(statement string) {
		t.Helper()
		if _, err := root.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, statement := range []string{"CREATE ROLE rot LOGIN PASSWORD 'one'", "CREATE SCHEMA rot AUTHORIZATION rot"} {
		do(statement)
	}
	rules := "local all postgres trust\nlocal all all scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(c.Dir(), "data", "pg_hba.conf"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	do("SELECT pg_reload_conf()")
	withPassword := func(password string) string {
		return strings.Replace(c.URL(), "user=postgres", "user=rot&password="+password, 1)
	}
	file := filepath.Join(t.TempDir(), "url")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(withPassword("one"))
	s := openStore(t, Options{URL: withPassword("one"), Schema: "rot", RereadURL: func() (string, error) {
		text, err := os.ReadFile(file)
		return string(text), err
	}})
	mustCommit(t, s, createMap(t, "a"))
	const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rot'"
	do("ALTER ROLE rot PASSWORD 'two'")
	// A file that cannot be parsed, or names another database, is ignored.
	for name, text := range map[string]string{"b": withPassword("two"), "c": "half a line", "d": strings.Replace(withPassword("none"), "///postgres", "///elsewhere", 1)} {
		if name != "b" {
			write(withPassword("two"))
			do(end)
			becomeReady(t, s)
		}
		write(text)
		do(end)
		becomeReady(t, s)
		mustCommit(t, s, createMap(t, name))
	}
}

// becomeReady gives a store the time to make a new connection.
func becomeReady(t *testing.T, s *Store) {
	t.Helper()
	var err error
	for range 100 {
		if err = s.Ready(t.Context()); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(err)
}

// Another user is refused because the search path may lead to other tables, and an empty file because libpq's
// environment would apply.
func TestCredentialsOfOthers(t *testing.T) {
	const url = "postgres://one:old@host/database"
	for _, c := range []struct{ schema, reread, user, password string }{
		{"", "postgres://one:new@host/database", "one", "new"},
		{"", "postgres://two:new@host/database", "one", "old"},
		{"s", "postgres://two:new@host/database", "two", "new"},
		{"s", "postgres://two:new@other/database", "one", "old"},
		{"s", "", "one", "old"},
	} {
		var log strings.Builder
		k := credentials{options: &Options{URL: url, Schema: c.schema, Logger: slog.New(slog.NewTextHandler(&log, nil)), RereadURL: func() (string, error) { return c.reread, nil }}}
		for range 2 {
			config, err := parsePostgres(url)
			if err != nil {
				t.Fatal(err)
			}
			if k.renew(config.ConnConfig); config.ConnConfig.User != c.user || config.ConnConfig.Password != c.password {
				t.Errorf("%+v: %s:%s", c, config.ConnConfig.User, config.ConnConfig.Password)
			}
		}
		if said := strings.Count(log.String(), "\n"); said > 1 || said == 1 != (c.password == "old") {
			t.Errorf("%+v: the log has %q", c, log.String())
		}
	}
}
