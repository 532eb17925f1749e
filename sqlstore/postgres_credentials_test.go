package sqlstore

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
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
	// A backup that the server makes then reads the file, too, and what the URL had at the start is not accepted.
	write(withPassword("two"))
	for _, c := range []struct {
		reread func() (string, error)
		works  bool
	}{{s.options.RereadURL, true}, {nil, false}, {func() (string, error) { return "half a line", nil }, false}} {
		source, err := OpenSource(t.Context(), Options{URL: withPassword("one"), Schema: s.Schema(), RereadURL: c.reread})
		if err == nil {
			err = source.Close()
		}
		if c.works != (err == nil) {
			t.Errorf("a backup after the password has changed: %v, want success: %t", err, c.works)
		}
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
			if k.renew(t.Context(), config.ConnConfig); config.ConnConfig.User != c.user || config.ConnConfig.Password != c.password {
				t.Errorf("%+v: %s:%s", c, config.ConnConfig.User, config.ConnConfig.Password)
			}
		}
		if said := strings.Count(log.String(), "\n"); said > 1 || said == 1 != (c.password == "old") {
			t.Errorf("%+v: the log has %q", c, log.String())
		}
	}
}

// Without --schema, a role can be replaced by another one while a server runs if the new role finds the same tables. A role that finds other tables is
// refused at once, and not only at the next start.
func TestRoleExchanged(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	root := admin(t, c.URL())
	do := func(statement string) {
		t.Helper()
		if _, err := root.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, statement := range []string{"CREATE ROLE one LOGIN", "CREATE SCHEMA one AUTHORIZATION one", "CREATE ROLE two LOGIN IN ROLE one", "ALTER ROLE two SET search_path TO one",
		"CREATE ROLE three LOGIN IN ROLE one", "CREATE SCHEMA three AUTHORIZATION three", "CREATE ROLE four LOGIN", "GRANT USAGE ON SCHEMA one TO four", "ALTER ROLE four SET search_path TO one"} {
		do(statement)
	}
	as := func(role string) string { return strings.Replace(c.URL(), "user=postgres", "user="+role, 1) }
	var named atomic.Value
	named.Store("one")
	var log strings.Builder
	s := openStore(t, Options{URL: as("one"), Logger: slog.New(slog.NewTextHandler(&log, nil)), RereadURL: func() (string, error) { return as(named.Load().(string)), nil }})
	for _, step := range []struct{ named, is string }{{"one", "one"}, {"three", "one"}, {"four", "one"}, {"two", "two"}, {"three", "two"}, {"one", "one"}, {"two", "two"}} {
		named.Store(step.named)
		do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IN ('one', 'two', 'three', 'four')")
		becomeReady(t, s)
		mustCommit(t, s, createMap(t, rand.Text()))
		var is string
		for range 100 { // connections that check the tables of a user, or that are closing, may exist for a moment
			if err := root.QueryRow(t.Context(), "SELECT coalesce(string_agg(DISTINCT usename, ' '), '') FROM pg_stat_activity WHERE usename IN ('one', 'two', 'three', 'four')").Scan(&is); err != nil {
				t.Fatal(err)
			}
			if is == step.is {
				break
			}
			// A connection that was being made when the user changed may still exist.
			do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IN ('one', 'two', 'three', 'four') AND usename <> '" + step.is + "'")
			time.Sleep(50 * time.Millisecond)
		}
		if is != step.is {
			t.Errorf("where %s is named, connections are those of %s, want %s", step.named, is, step.is)
		}
		if step.named == step.is { // what a backup of the server's schema reads
			source, err := OpenSource(t.Context(), Options{URL: as("absent"), Schema: s.Schema(), RereadURL: s.options.RereadURL})
			if err != nil {
				t.Errorf("a backup by %s: %v", step.named, err)
				continue
			}
			if got := source.State().Revision; got != s.revisions.current.Load() {
				t.Errorf("a backup by %s has revision %d", step.named, got)
			}
			if err := source.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "whose search path does not lead to the tables in the schema") {
		t.Errorf("the log has %s", log.String())
	}
}

// A database that accepts another user and then does not answer stops no connections: they are made as the previous
// user, soon, and only the first one asks.
func TestCredentialsOfSilentDatabase(t *testing.T) {
	t.Parallel()
	port, accepted := silentPostgres(t)
	as := func(user string) string {
		return "postgres://" + user + "@127.0.0.1:" + port + "/database?sslmode=disable"
	}
	k := credentials{options: &Options{Logger: slog.New(slog.DiscardHandler), limits: limits{ping: 300 * time.Millisecond},
		RereadURL: func() (string, error) { return as("two"), nil }}}
	began := time.Now()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			config, err := parsePostgres(as("one"))
			if err != nil {
				t.Error(err)
				return
			}
			if k.renew(t.Context(), config.ConnConfig); config.ConnConfig.User != "one" {
				t.Errorf("the user is %s", config.ConnConfig.User)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 2*time.Second || accepted.Load() != 1 {
		t.Errorf("it took %v, and %d asked", took, accepted.Load())
	}
}

// silentPostgres starts a server that accepts each user and answers no statement. It returns its port, and how many
// users it has accepted.
func silentPostgres(t *testing.T) (port string, accepted *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	t.Cleanup(func() { l.Close() })
	accepted = &atomic.Int32{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			ended := context.AfterFunc(ctx, func() { conn.Close() }) // the client waits two seconds for that
			go func() {
				defer ended()
				defer conn.Close()
				b := pgproto3.NewBackend(conn, conn)
				if first, err := b.ReceiveStartupMessage(); err != nil {
					return
				} else if _, ok := first.(*pgproto3.StartupMessage); !ok {
					return // a cancel request
				}
				accepted.Add(1)
				b.Send(&pgproto3.AuthenticationOk{})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				if b.Flush() == nil {
					_, _ = io.Copy(io.Discard, conn)
				}
			}()
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, accepted
}
