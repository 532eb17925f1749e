package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/resources"
)

// page is what the log has after a revision, with the state of the store that it belongs to.
type page struct {
	meta
	origin, actual string        // where the counter was raised last, and where this is
	askedAt        sql.NullInt64 // when the change at the revision asked for was committed, as far as it is in history
	rows           []logRow      // in the order of revisions; those up to meta.revision, unless there were too many

	freed  int64 // bytes that were ever pruned
	legacy bool  // servers of the version before may be there, which read the counter in meta
	heard  bool  // another server listens
}

// logRow is a change without what the cache knows already: the object before it.
type logRow struct {
	op           resources.Op
	at           int64
	prevRevision int64
	object       *resources.Object
	transaction  string // the number of the one that wrote it, which its neighbours of other transactions do not have
}

// The bounds of a page: what can be read in limits.read over a slow network too, and held in memory beside the cache.
const (
	pageRows  = 2048
	pageBytes = 4 << 20
)

// asker is a connection, or many of them, to read the log through.
type asker interface {
	// page returns the first changes after a revision: so many, or as many as have so many bytes, the last of which may
	// go beyond.
	page(ctx context.Context, after int64, rows, bytes int) (*page, error)
}

// pageAfter reads on in the log: whole transactions, one at least, since a transaction must become visible as a whole.
func pageAfter(ctx context.Context, from asker, after int64) (*page, error) {
	seen := 0
	for rows, bytes := pageRows, pageBytes; ; rows, bytes = 2*rows, 2*bytes {
		p, err := from.page(ctx, after, rows, bytes)
		if err != nil || p.cut(after) || len(p.rows) == seen { // seen: that is all there is of it
			return p, err
		}
		seen = len(p.rows)
	}
}

// cut takes off the last transaction of a page after which the log goes on, for its end may not be there. It reports
// false, and does nothing, when there is no other.
func (p *page) cut(after int64) bool {
	if len(p.rows) == 0 || p.complete(after) {
		return true
	}
	n := len(p.rows)
	for last := p.rows[n-1].transaction; n > 0 && p.rows[n-1].transaction == last; {
		n--
	}
	if n > 0 {
		p.rows = p.rows[:n]
	}
	return n > 0
}

// position is how far a store has come: a revision, and when it was committed (0: not known), which tells one change
// from another that was given the same revision by a database that had lost the first.
type position struct{ revision, at int64 }

// astray reports whether the database is not a continuation of what a store has seen at a position: it was restored from
// a backup, or is a replica that was promoted and lost the last commits, or perhaps lost some.
func (p *page) astray(seen position) bool {
	return p.origin != p.actual || p.revision < seen.revision ||
		(seen.at != 0 && p.floor < seen.revision && p.askedAt.Int64 != seen.at)
}

// complete reports whether the page has all there is after a revision.
func (p *page) complete(after int64) bool {
	return p.revision <= after || (len(p.rows) > 0 && p.rows[len(p.rows)-1].object.Revision == p.revision)
}

// actualSQL is where the row m of the table meta is: cluster, timeline and table.
const actualSQL = `(SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || m.tableoid`

// What the row m of the table meta says of the store together with the log.
const (
	// counterSQL is the counter. It is in meta only as long as servers of the version before may be there. After that the
	// log has it, until all of the log is pruned: then it is the floor.
	counterSQL = `coalesce(m.revision, (SELECT l.revision FROM changes l WHERE l.revision > m.floor ORDER BY l.revision DESC LIMIT 1), m.floor)`
	// historyBytesSQL is the sum of the sizes of all changes after the floor.
	historyBytesSQL = `CASE WHEN m.revision IS NULL THEN coalesce((
  SELECT l.total FROM changes l WHERE l.revision > m.floor ORDER BY l.revision DESC LIMIT 1) - m.freed, 0) ELSE m.history_bytes END`

	selectStateSQL = `SELECT ` + counterSQL + `, m.floor, ` + historyBytesSQL + `,
(SELECT c.at FROM changes c WHERE c.revision = ` + counterSQL + `), m.ages FROM meta m`
)

// selectPageSQL takes the state of the store along in every row, so that all is of one state of the database.
const selectPageSQL = `WITH state AS MATERIALIZED (
  SELECT ` + counterSQL + ` AS counter, m.floor, ` + historyBytesSQL + ` AS bytes, m.origin, ` + actualSQL + ` AS actual,
  (SELECT l.at FROM changes l WHERE l.revision = $1) AS asked_at, m.freed, m.revision IS NOT NULL AS legacy,
  EXISTS (SELECT 1 FROM servers o WHERE o.id <> $4) AS heard FROM meta m
) SELECT s.*, c.revision, c.at, c.op, c.resource, c.namespace, c.name, c.prev_revision, c.fields, c.data, c.transaction
FROM state s LEFT JOIN LATERAL (
  SELECT * FROM (
    SELECT changes.*, changes.xmin::text AS transaction, sum(size) OVER (ORDER BY revision ROWS UNBOUNDED PRECEDING) - size AS before
    FROM changes WHERE changes.revision > $1 ORDER BY changes.revision LIMIT $2
  ) AS first WHERE first.before < $3
) AS c ON true ORDER BY c.revision`

// scanRow adds a row of selectPageSQL.
func (p *page) scanRow(l *loader, scan func(...any) error) error {
	var revision, at, prevRevision sql.NullInt64
	var op, resource, namespace, name, f, transaction sql.NullString
	var data []byte
	if err := scan(&p.revision, &p.floor, &p.historyBytes, &p.origin, &p.actual, &p.askedAt, &p.freed, &p.legacy, &p.heard,
		&revision, &at, &op, &resource,
		&namespace, &name, &prevRevision, &f, &data, &transaction); err != nil {
		return unavailable(err)
	}
	if !revision.Valid {
		return nil
	}
	o, err := parseOp(op.String)
	if err != nil {
		return err
	}
	key := resources.Key{Resource: l.intern(resource.String), Namespace: l.intern(namespace.String), Name: name.String}
	p.rows = append(p.rows, logRow{op: o, at: at.Int64, prevRevision: prevRevision.Int64,
		object: l.buildChanged(o, key, revision.Int64, data, f), transaction: l.intern(transaction.String)})
	return nil
}

// errGap says that the log does not continue what is in the cache.
var errGap = errors.New("the log does not continue the cache")

// events makes events of the rows after a revision. What was before each is in the trees, or in the rows before it.
// Errors: errGap.
func (p *page) events(after int64, state func(resource string) *tree) ([]*resources.Event, error) {
	var events []*resources.Event
	pending := map[resources.Key]*resources.Object{}
	for _, r := range p.rows {
		o := r.object
		if o.Revision <= after {
			continue
		}
		prev, ok := pending[o.Key]
		if !ok {
			prev, _ = state(o.Resource).objects.Get(o.Path())
			prev = unpacked(prev)
		}
		if prev == nil && r.prevRevision != 0 || prev != nil && prev.Revision != r.prevRevision ||
			o.Revision != after+int64(len(events))+1 {
			return nil, fmt.Errorf("%w: %s at revision %d", errGap, o.Key, o.Revision)
		}
		events = append(events, &resources.Event{Op: r.op, Revision: o.Revision, Object: o, Prev: prev})
		if pending[o.Key] = o; r.op == resources.Delete {
			pending[o.Key] = nil
		}
	}
	return events, nil
}
