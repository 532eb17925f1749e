package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rowlock/rowlock/resources"
)

// historyQuery selects changes of one resource type with after < revision <= upTo, of a namespace and a name if they
// are set, and at most limit of them.
type historyQuery struct {
	resource, namespace, name string
	after, upTo               int64
	limit                     int
	// unreadable selects events that cannot be read, too.
	unreadable bool
}

// historyAnswer has the selected changes up to a revision: upTo of the query, or less if there were too many.
type historyAnswer struct {
	events []*resources.Event
	upTo   int64
}

// historyBytes bounds the bytes of one answer in memory, and those that Postgres sends; the row that exceeds it is the
// last. A watcher whose client is slow keeps an answer.
const historyBytes = 1 << 20

// history reads changes from the database. Errors: *resources.ExpiredError when some were pruned,
// resources.ErrUnavailable, the context's.
//
// A key that no commit can write has no history. The database is not queried for it: Postgres refuses a namespace or a
// name that is not text (SQLSTATE 22021), and would refuse it for ever.
func (d *database) history(ctx context.Context, q historyQuery) (historyAnswer, error) {
	answer := historyAnswer{upTo: q.upTo}
	if key := (resources.Key{Resource: q.resource, Namespace: q.namespace, Name: q.name}); len(key.Storable()) > 0 {
		return answer, nil
	}
	l := loader{sealer: d.sealer}
	last, bytes, sent := int64(-1), 0, int64(0)
	statement, args := selectHistorySQL, []any{q.resource, q.after, q.upTo, q.namespace, q.name, q.limit}
	if d.origin != nil {
		statement, args = selectHistoryHereSQL, append(args, historyBytes)
	}
	err := d.each(ctx, func(scan func(...any) error) error {
		floor, cost, e, err := l.event(q.resource, scan)
		switch {
		case err != nil:
			return err
		case e == nil && d.origin != nil && !d.origin.is(l.origin):
			return fmt.Errorf("%w: %w", resources.ErrUnavailable, errAstray)
		case e == nil && floor > q.after:
			return &resources.ExpiredError{Requested: q.after, Oldest: floor}
		case e == nil && last < 0:
			last = q.after
			return nil
		case e == nil || last < 0 || e.Revision <= last:
			return fmt.Errorf("%w: history came out of order", resources.ErrUnavailable)
		}
		if err := e.Unreadable(); err != nil && !q.unreadable {
			if len(answer.events) == 0 {
				return err
			}
			answer.upTo = last
			return errStop
		}
		last = e.Revision
		answer.events = append(answer.events, e)
		if bytes += len(e.Object.Data); e.Prev != nil && !sharesPrev(e, q.after) {
			bytes += len(e.Prev.Data)
		}
		// If sent reaches the bound, the database sends no row after this one, though there may be more changes.
		if sent += cost; len(answer.events) == q.limit || bytes > historyBytes || sent >= historyBytes {
			answer.upTo = e.Revision
			return errStop
		}
		return nil
	}, statement, args...)
	return answer, err
}

// sharesPrev reports whether the object before an event is also the object of another event after the given revision.
func sharesPrev(e *resources.Event, after int64) bool {
	return e.Op == resources.Update && e.Prev.Revision > after
}

// event makes an event of a row of selectHistorySQL, or nil of the row that carries the floor.
func (l *loader) event(resource string, scan func(...any) error) (floor, cost int64, e *resources.Event, err error) {
	var revision, prevRevision sql.NullInt64
	var op, namespace, name, f, prevFields sql.NullString
	var data, prevData []byte
	err = scan(&floor, &revision, &op, &namespace, &name, &prevRevision, &f, &prevFields, &data, &prevData, &cost)
	if err != nil {
		return 0, 0, nil, unavailable(err)
	}
	if !revision.Valid {
		l.origin = op.String
		return floor, 0, nil, nil
	}
	key := resources.Key{Resource: resource, Namespace: namespace.String, Name: name.String}
	e = &resources.Event{Revision: revision.Int64}
	if e.Op, err = parseOp(op.String); err != nil {
		return 0, 0, nil, err
	}
	e.Object = l.buildChanged(e.Op, key, e.Revision, data, f)
	if l.changed == nil {
		l.changed = map[int64]*resources.Object{}
	}
	l.changed[e.Revision] = e.Object
	switch e.Op {
	case resources.Update:
		if e.Prev = l.changed[prevRevision.Int64]; e.Prev == nil && prevData != nil {
			e.Prev = l.build(key, prevRevision.Int64, prevData, prevFields)
		}
		if e.Prev == nil {
			return 0, 0, nil, &resources.ExpiredError{Requested: prevRevision.Int64, Oldest: e.Revision}
		}
	case resources.Delete:
		e.Prev = e.Object.At(prevRevision.Int64)
	}
	return floor, cost, e, nil
}
