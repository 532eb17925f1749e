package sqlstore

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/resources"
)

// A schema that comes to precede the store's in the search path does not replace it: not for a running server that
// makes new connections, whether the schema has another store or not; and a server that starts asks for the name of the
// schema.
func TestSchemaBeforeTheStore(t *testing.T) {
	ctx := testContext(t)
	_, c := newBreakable(t)
	conn := admin(t, c.URL())
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE ROLE other LOGIN; CREATE SCHEMA other AUTHORIZATION other`)
	h := &postgresHarness{url: c.URL(), clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	direct := h.openPeer(t)
	h.url = poolerBefore(t, c).URL()
	behind := h.openPeer(t)
	mustCommit(t, direct, createMap(t, "first"))

	exec(`CREATE SCHEMA postgres`) // the search path begins with the schema named after the user
	h.url = c.URL()
	if s, err := Open(ctx, h.options()); err == nil || !strings.Contains(err.Error(), `one is in "public"`) {
		t.Errorf("opened where no store is: %v", err)
		if err == nil {
			s.Close()
		}
	}
	h.schema = "postgres"
	own := h.openPeer(t)
	mustCommit(t, own, createMap(t, "own"))
	exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	for i, s := range []*Store{direct, behind, own} {
		snap := settled(ctx, t, s)
		if (snap.Get("default", "first") != nil) != (i < 2) || (snap.Get("default", "own") != nil) != (i == 2) {
			t.Errorf("server %d has the objects of another store", i)
		}
	}
	commitSoon(ctx, t, behind, createMap(t, "second"))
	if _, err := direct.Get(ctx, configMap("default", "second"), resources.At{}); err != nil {
		t.Error(err)
	}

	// A role that may not update schema_migrations still recognises the store.
	exec(`CREATE ROLE narrow; GRANT ALL ON ALL TABLES IN SCHEMA public TO narrow; REVOKE UPDATE ON public.schema_migrations FROM narrow; SET ROLE narrow`)
	var filled string
	if err := conn.QueryRow(ctx, filledSchemaSQL).Scan(&filled); err != nil || filled != "public" {
		t.Errorf("a narrow role finds the store in %q, %v", filled, err)
	}
	exec(`RESET ROLE`)

	// Stores that the role may not write are ignored.
	h.url, h.schema = strings.Replace(c.URL(), "user=postgres", "user=other", 1), ""
	mustCommit(t, h.openPeer(t), createMap(t, "others"))
}
