package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
)

// oddSettings are settings of databases that serve older programs, or whose administrators are careful.
var oddSettings = []string{"bytea_output = escape", "default_transaction_isolation = serializable", "default_transaction_deferrable = on", "datestyle = 'German, DMY'",
	"intervalstyle = iso_8601", "timezone = 'Pacific/Chatham'", "standard_conforming_strings = off", "client_encoding = LATIN1", "quote_all_identifiers = on",
	"transform_null_equals = on", "row_security = off"}

// Whatever settings a database has for its clients, a store reads what it wrote, with prepared statements and without
// them through a pooler, and Verify finds nothing.
func TestPostgresWithOddSettings(t *testing.T) {
	direct, c := newBreakable(t)
	conn := admin(t, c.URL())
	for _, setting := range oddSettings {
		if _, err := conn.Exec(t.Context(), "ALTER DATABASE postgres SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	behind := poolerBefore(t, c)
	for name, h := range map[string]*postgresHarness{"direct": direct, "pooler": newPostgresHarnessAt(t, behind.URL())} {
		t.Run(name, func(t *testing.T) {
			h.close(t)
			o := h.options()
			o.ObjectHistory = ObjectHistory{Age: time.Hour}
			h.store = mustOpen(t, o)
			workedWith(t, h.store)
			kept := historyOf(t, h.store, resources.RevisionQuery{})
			verifyWhole(t, o)
			h.close(t)
			h.store = mustOpen(t, o)
			if again := historyOf(t, h.store, resources.RevisionQuery{}); len(kept) < 6 || len(again) != len(kept) {
				t.Errorf("kept are %v, and after a start %v", kept, again)
			}
		})
	}
}

// Texts are UTF-8 whatever encoding a database has for its clients, and a database that cannot store all characters is
// refused at first.
func TestPostgresEncodings(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	const text = "Grüße, 日本 🚀"
	w := createMap(t, "text")
	w.Draft.Data = bytes.Replace(w.Draft.Data, []byte(`{`), []byte(`{"text":"`+text+`",`), 1)
	mustCommit(t, h.store, w)
	h.close(t)
	conn := admin(t, c.URL())
	for _, statement := range []string{"ALTER DATABASE postgres SET client_encoding = LATIN1",
		"CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0", "CREATE DATABASE bytes ENCODING SQL_ASCII LOCALE 'C' TEMPLATE template0"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	h.store = h.open(t)
	if o, err := h.store.Get(ctx, w.Key, resources.At{}); err != nil || !bytes.Contains(o.Stored(), []byte(text)) {
		t.Errorf("read is %v, %v", o, err)
	}
	for database, fits := range map[string]bool{"latin": false, "bytes": true} {
		o := h.options()
		o.URL = strings.Replace(c.URL(), "/postgres?", "/"+database+"?", 1)
		s, err := Open(ctx, o)
		switch {
		case fits && err != nil, !fits && (err == nil || !strings.Contains(err.Error(), "LATIN1")):
			t.Errorf("%s: %v", database, err)
		case fits:
			mustCommit(t, s, w)
		}
		if err == nil {
			s.Close()
		}
	}
}

// A role's time limits do not end a Source that reads everything and waits for a slow destination.
func TestSourceTakesItsTime(t *testing.T) {
	h, c := newBreakable(t)
	beImpatient(t, admin(t, c.URL()))
	source, err := OpenSource(t.Context(), h.options())
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if _, err := source.tx.ExecContext(t.Context(), "SELECT pg_sleep(1.5)"); err != nil {
		t.Errorf("a statement that takes long: %v", err)
	}
	time.Sleep(1500 * time.Millisecond)
	if _, err := source.HasHistory(t.Context()); err != nil {
		t.Errorf("after nothing was read in a while: %v", err)
	}
}

func beImpatient(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	settings := []string{"statement_timeout", "idle_in_transaction_session_timeout"}
	var v version
	if err := conn.QueryRow(t.Context(), "SELECT "+versionSQL).Scan(&v.number, &v.name); err != nil {
		t.Fatal(err)
	}
	if v.number >= 170000 {
		settings = append(settings, "transaction_timeout")
	}
	for _, setting := range settings {
		if _, err := conn.Exec(t.Context(), "ALTER DATABASE postgres SET "+setting+" = '1s'"); err != nil {
			t.Fatal(err)
		}
	}
}

// Nor do they end a transaction that fills a target slowly, or one that waits for its turn to block writes.
func TestMoveTakesItsTime(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	conn := admin(t, c.URL())
	beImpatient(t, conn)
	from := h.options()
	to := from
	to.Schema = "elsewhere"
	target, err := openMoveTarget(ctx, &to, "a source")
	if err != nil {
		t.Fatal(err)
	}
	defer target.close() //nolint:errcheck // it was not finished
	if err := target.do(ctx, func(tx *sql.Tx) error {
		time.Sleep(1500 * time.Millisecond)
		_, err := tx.ExecContext(ctx, "SELECT pg_sleep(1.5)")
		return err
	}); err != nil {
		t.Errorf("the target: %v", err)
	}
	if err := prepareFence(ctx, &from); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "BEGIN; SELECT FROM "+pgx.Identifier{h.schema, "meta"}.Sanitize()+" FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	time.AfterFunc(1500*time.Millisecond, func() {
		_, err := conn.Exec(context.Background(), "ROLLBACK")
		ended <- err
	})
	f, err := raiseFence(ctx, &from, slowly)
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatalf("the fence: %v", err)
	}
	if err := f.lift(); err != nil {
		t.Error(err)
	}
}

// Postgres compiles no statement of a server (jit): all of them are short, but without statistics of a new table the planner expects many rows.
func TestPostgresCompilesNothing(t *testing.T) {
	h, c := newBreakable(t)
	if _, err := admin(t, c.URL()).Exec(t.Context(), "ALTER DATABASE postgres SET jit = on"); err != nil {
		t.Fatal(err)
	}
	h.close(t)
	h.store = h.open(t)
	var jit string
	if err := h.store.db.reads.QueryRowContext(t.Context(), "SHOW jit").Scan(&jit); err != nil || jit != "off" {
		t.Errorf("jit is %s, %v", jit, err)
	}
	pooled := h.options()
	pooled.URL = poolerBefore(t, c).URL()
	p := openStore(t, pooled).peers.db
	if err := p.query(t.Context(), p.pool, "SELECT current_setting('jit')").scan(&jit); err != nil || jit != "off" || !p.pooled {
		t.Errorf("behind a pooler jit is %s, %v", jit, err)
	}
}

// A server that hangs while it holds the counter is ended even if the role may not take as long for a statement as a server would wait for the counter.
func TestPostgresEvictsInHaste(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	hangs := admin(t, c.URL())
	beImpatient(t, hangs) // for the connections that are made after it
	h.limits = usualLimits
	h.limits.idle = time.Second
	other := h.openPeer(t)
	if _, err := hangs.Exec(ctx, setSearchPathOf(h.schema)+"; BEGIN; SELECT FROM meta FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	commitSoon(ctx, t, other, createMap(t, "soon"))
}

// Every byte of a bytea is read as it was written, and invalid text is refused.
func TestUnescapeBytea(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	_, c := newBreakable(t)
	conn := admin(t, c.URL())
	for _, want := range [][]byte{all, {}, []byte(`\x41`), []byte(`\\`), {0}} {
		var text string
		if err := conn.QueryRow(t.Context(), "SELECT encode($1::bytea, 'escape')", want).Scan(&text); err != nil {
			t.Fatal(err)
		}
		if got, err := unescapeBytea([]byte(text)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is read as %q, %v", text, got, err)
		}
	}
	for _, text := range []string{`\`, `\0`, `\00`, `\400`, `\08a`, `a\-01`} {
		if got, err := unescapeBytea([]byte(text)); err == nil {
			t.Errorf("%s is read as %q", text, got)
		}
	}
}

// A version that servers do not support is refused by its number, before a statement fails that it does not know.
func TestPostgresVersions(t *testing.T) {
	for v, refused := range map[version]bool{{130023, "13.23"}: true, {140000, "14beta1"}: true, {150000, "15.0"}: false, {180006, "18.6 (Debian 18.6-3)"}: false} {
		if err := v.check(); (err != nil) != refused || refused && !strings.Contains(err.Error(), "the database is Postgres "+v.name) {
			t.Errorf("%s: %v", v.name, err)
		}
	}
}

// The time limits of a role do not end the start of a server, which takes as long as reading all objects takes.
func TestPostgresStartTakesItsTime(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	w := createMap(t, "first")
	mustCommit(t, h.store, w)
	h.close(t)
	conn := admin(t, c.URL())
	const slowTable = "ALTER TABLE objects RENAME TO fast; CREATE VIEW objects AS SELECT fast.ctid, fast.* FROM fast CROSS JOIN LATERAL (SELECT pg_sleep(1.5)) AS slow"
	for _, statement := range []string{"SET search_path = " + pgx.Identifier{h.schema}.Sanitize(), slowTable} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	beImpatient(t, conn)
	h.store = h.open(t)
	if _, err := h.store.Get(ctx, w.Key, resources.At{}); err != nil {
		t.Error(err)
	}
}
