package controlplane

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// crew are members as a test sets them.
type crew struct {
	self  string
	alive *[]string
}

func (c crew) Self() string                            { return c.self }
func (c crew) Alive(context.Context) ([]string, error) { return *c.alive, nil }
func (crew) Changed() <-chan struct{}                  { return nil }

func newRows(t *testing.T) *resources.Rows {
	t.Helper()
	return resources.NewRows(sqlitetest.Open(t))
}

// The row of a server that is gone stays for a while, in which the server may come back; then the row is removed.
func TestMembersRemoveDead(t *testing.T) {
	rows, alive := newRows(t), []string{"1", "2"}
	member := func(name string, last byte) *membership {
		n := Network{Address: net.IPv4(192, 0, 2, last), Port: 6443, Members: crew{name, &alive}, Rows: rows}
		m := n.membership()
		for range 2 {
			if err := m.join(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	a := member("1", 1)
	member("2", 2)
	now := time.Unix(1_700_000_000, 0)
	for i, step := range []struct {
		after time.Duration
		alive []string
		again time.Duration
		rows  int
	}{
		{0, []string{"1", "2"}, 0, 2},
		{0, []string{"1"}, deadAfter, 2},
		{time.Second, []string{"1"}, deadAfter - time.Second, 2},
		{time.Hour, []string{"1", "2"}, 0, 2}, // it came back in time
		{0, nil, deadAfter, 2},                // the asking server is alive
		{deadAfter, nil, 0, 1},
	} {
		now, alive = now.Add(step.after), step.alive
		again, err := a.removeDead(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		all, err := a.endpoints(t.Context())
		if err != nil || again != step.again || len(all) != step.rows {
			t.Errorf("step %d: again in %v, %v, %v", i, again, all, err)
		}
	}
	all, err := a.endpoints(t.Context())
	if diff := cmp.Diff([]string{"192.0.2.1"}, grouped(all)[0].addresses); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A server behind a pooler, whose row expires, is in no list of living servers: a server that connects directly leaves its row.
func TestMembersOfBothKinds(t *testing.T) {
	rows, alive := newRows(t), []string{"1"}
	direct := Network{Address: net.IPv4(192, 0, 2, 1), Port: 6443, Members: crew{"1", &alive}, Rows: rows}.membership()
	pooled := Network{Address: net.IPv4(192, 0, 2, 2), Port: 6443, Members: Expiring("0e6f5c5c-6a5e-4f0c-8f9e-3c1d9a7b2d11", time.Minute), Rows: rows}.membership()
	for _, m := range []*membership{direct, pooled} {
		if err := m.join(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Unix(1_700_000_000, 0)
	for range 2 {
		if again, err := direct.removeDead(t.Context(), now); again != 0 || err != nil {
			t.Errorf("again in %v, %v", again, err)
		}
		if all, err := direct.endpoints(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%v, %v", all, err)
		}
		now = now.Add(time.Hour)
	}
}

// Where liveness cannot be observed, a row is renewed before its term ends.
func TestMembersExpiring(t *testing.T) {
	rows := newRows(t)
	m := Network{Address: net.IPv4(192, 0, 2, 1), Port: 6443, Members: Expiring("a", time.Minute), Rows: rows}.membership()
	revisions := map[int64]bool{}
	for range 3 {
		if err := m.join(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, err := rows.Get(t.Context(), m.key("a"), resources.At{})
		if err != nil {
			t.Fatal(err)
		}
		revisions[o.Revision] = true
	}
	if again, err := m.removeDead(t.Context(), time.Now()); err != nil || again != 40*time.Second || len(revisions) != 3 {
		t.Errorf("again in %v, %v; written at %v", again, err, revisions)
	}
}
