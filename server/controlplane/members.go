package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// Members are the servers that share a database.
type Members interface {
	// Self is the unique name of this server.
	Self() string
	// Alive returns the names of the servers that are alive now.
	Alive(context.Context) ([]string, error)
	// Changed returns a channel that is closed when other servers have come or gone, or this one has come back.
	Changed() <-chan struct{}
}

// Expiring returns Members of which only their rows tell whether they are alive: each row has to be renewed before term
// has passed. Behind a connection pooler to the database there is no better sign.
func Expiring(self string, term time.Duration) Members { return expiring{self, term} }

type expiring struct {
	self string
	term time.Duration
}

func (e expiring) Self() string                          { return e.self }
func (expiring) Alive(context.Context) ([]string, error) { return nil, nil }
func (expiring) Changed() <-chan struct{}                { return nil }

// MembersResource is the resource in which each server stores a row with its address. The row ends with the server. No API serves it.
const MembersResource = "servers.rowlock.internal"

// memberKind is the kind of the rows.
const memberKind = "Server"

// deadAfter is how long a server has to be gone before its row is removed: after a restart of the database all servers
// come back, but not at the same moment.
const deadAfter = 5 * time.Second

// membership is what a server knows of itself and the other members.
type membership struct {
	rows    *resources.Rows
	members Members
	self    endpoint
	term    time.Duration // for how long a row is valid; 0: as long as its server is alive
	// missing holds the servers that have a row but are not alive, and since when.
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

// join writes or renews the row of this server.
func (m *membership) join(ctx context.Context) error {
	key := m.key(m.members.Self())
	o, err := m.rows.Get(ctx, key, resources.At{Match: resources.MostRecent})
	switch {
	case err == nil && m.term == 0:
		return nil // the row is up to date, since the address does not change while the server runs
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
		return nil // another server has removed it
	}
	return err
}

// removeDead removes the rows of servers that have been gone for deadAfter, and returns the time until the next row is due: 0
// when no server is missing. Only a living server writes its row. If the row was read before the list of living servers, and
// the server is not in that list, the server was gone at some moment in between. The store removes rows that expire: those
// of servers behind a pooler, which are in no list.
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
		if o.Name == m.members.Self() || slices.Contains(alive, o.Name) || !isSession(o.Name) {
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

// isSession reports whether a server is named by its session in the database, whose end shows that the server is gone.
func isSession(name string) bool {
	_, err := strconv.ParseInt(name, 10, 32)
	return err == nil
}

// endpoints returns the endpoints of all servers that have a row.
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

// reconcile writes this server's row, and sets the endpoints to those of the servers with a row.
func (m *membership) reconcile(ctx context.Context, p *Plane) error {
	if err := m.join(ctx); err != nil {
		return err
	}
	return p.ensureEndpoints(ctx, func(bool) ([]endpoint, error) { return m.endpoints(ctx) })
}

// leave removes this server from the endpoints, unless it is the only one.
func (m *membership) leave(ctx context.Context, p *Plane) error {
	if err := m.remove(ctx, m.members.Self()); err != nil {
		return err
	}
	return p.ensureEndpoints(ctx, func(bool) ([]endpoint, error) { return m.endpoints(ctx) })
}

// CheckRow returns what is wrong with the row of a server, from which the endpoints are made; nil for any other object.
func CheckRow(o *resources.Object) error {
	if o.Resource != MembersResource {
		return nil
	}
	var e endpoint
	if err := resources.DecodeInternal(o, &e); err != nil {
		return err
	}
	if len(e.Address) == 0 || e.Port < 1 || e.Port > 65535 {
		return fmt.Errorf("has no address at which a server is reached, but %s, port %d", e.Address, e.Port)
	}
	return nil
}
