package controlplane

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// Members are the servers that share a database.
type Members interface {
	// Self is the name of this server, which no other has.
	Self() string
	// Alive returns the names of those that live, as of now.
	Alive(context.Context) ([]string, error)
	// Changed returns a channel that is closed when others have come or gone, or this one has come back.
	Changed() <-chan struct{}
}

// Expiring are servers of which nobody can tell whether they live but by their rows: each has to be renewed before term
// has passed. A pooler between the servers and the database leaves nothing better.
func Expiring(self string, term time.Duration) Members { return expiring{self, term} }

type expiring struct {
	self string
	term time.Duration
}

func (e expiring) Self() string                          { return e.self }
func (expiring) Alive(context.Context) ([]string, error) { return nil, nil }
func (expiring) Changed() <-chan struct{}                { return nil }

// MembersResource is where servers say how they are reached, a row for each, which ends with them. No API serves it.
const MembersResource = "servers.rowlock.internal"

// memberKind is the kind of the rows.
const memberKind = "Server"

// deadAfter is how long a server has to be gone before its row is removed: after a restart of the database all servers
// come back, one a little earlier than the other.
const deadAfter = 5 * time.Second

// membership is what a server knows of itself and the others.
type membership struct {
	rows    *resources.Rows
	members Members
	self    endpoint
	term    time.Duration // for which a row counts; 0: as long as its server lives
	// missing are those of which there is a row and nothing else, and since when.
	missing map[string]time.Time
}

func (n Network) membership() *membership {
	m := &membership{rows: n.Rows, members: n.Members, self: endpoint{n.Address, n.Port}}
	if e, ok := n.Members.(expiring); ok {
		m.term = e.term
	}
	return m
}

func (m *membership) key(name string) resources.Key {
	return resources.Key{Resource: MembersResource, Name: name}
}

// join writes down how this server is reached, or that it still is.
func (m *membership) join(ctx context.Context) error {
	key := m.key(m.members.Self())
	o, err := m.rows.Get(ctx, key, resources.At{Match: resources.MostRecent})
	switch {
	case err == nil && m.term == 0:
		return nil // it says the same, for that does not change while the server runs
	case err == nil:
		_, err = m.rows.Update(ctx, o, memberKind, m.self, m.term)
	case errors.Is(err, resources.ErrNotFound):
		_, err = m.rows.Create(ctx, key, memberKind, m.self, m.term)
	}
	return err
}

// remove removes the row of a server.
func (m *membership) remove(ctx context.Context, name string) error {
	o, err := m.rows.Get(ctx, m.key(name), resources.At{Match: resources.MostRecent})
	if err == nil {
		err = m.rows.Delete(ctx, o)
	}
	if errors.Is(err, resources.ErrNotFound) {
		return nil // another server was faster
	}
	return err
}

// removeDead removes the rows of servers that have been gone for long enough, and returns how long to wait until the next is:
// 0 when none is missing. A row is written by a server that lives, so one whose row is read before asking who lives, and
// who does not, was gone at some moment in between. Rows that expire are removed by the store.
func (m *membership) removeDead(ctx context.Context, now time.Time) (again time.Duration, err error) {
	if m.term > 0 {
		return m.term * 2 / 3, nil
	}
	rows, err := m.rows.Snapshot(ctx, MembersResource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return 0, err
	}
	alive, err := m.members.Alive(ctx)
	if err != nil {
		return 0, err
	}
	missing := map[string]time.Time{}
	rows.Ascend("", "", func(o *resources.Object) bool {
		if o.Name == m.members.Self() || slices.Contains(alive, o.Name) {
			return true
		}
		since, ok := m.missing[o.Name]
		if !ok {
			since = now
		}
		missing[o.Name] = since
		return true
	})
	m.missing = missing
	for name, since := range missing {
		left := deadAfter - now.Sub(since)
		if left > 0 {
			if again == 0 || left < again {
				again = left
			}
			continue
		}
		if err := m.remove(ctx, name); err != nil {
			return 0, err
		}
		delete(missing, name)
	}
	return again, nil
}

// endpoints are those of all servers that have a row.
func (m *membership) endpoints(ctx context.Context) (all []endpoint, err error) {
	rows, err := m.rows.Snapshot(ctx, MembersResource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, err
	}
	rows.Ascend("", "", func(o *resources.Object) bool {
		var e endpoint
		if err = resources.DecodeInternal(o, &e); err != nil {
			return false
		}
		all = append(all, e)
		return true
	})
	return all, err
}

// reconcile makes this server known, and the endpoints those of the servers that are.
func (m *membership) reconcile(ctx context.Context, p *Plane) error {
	if err := m.join(ctx); err != nil {
		return err
	}
	return p.ensureEndpoints(ctx, func(bool) ([]endpoint, error) { return m.endpoints(ctx) })
}

// leave takes this server out of the endpoints, unless it is the only one.
func (m *membership) leave(ctx context.Context, p *Plane) error {
	if err := m.remove(ctx, m.members.Self()); err != nil {
		return err
	}
	return p.ensureEndpoints(ctx, func(bool) ([]endpoint, error) { return m.endpoints(ctx) })
}
