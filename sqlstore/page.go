package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/resources"
)

// page holds the changes of the log after a revision, with the state of the store at the same time.
type page struct {
	meta
	origin, actual string        // where the counter was last raised, and where the page was read
	askedAt        sql.NullInt64 // commit time of the change at the revision of the query, if it is in history
	rows           []logRow      // in the order of revisions; those up to meta.revision, unless there were too many

	freed  int64 // bytes pruned since the database was created
	legacy bool  // servers of schema version 1 may be running, which read the counter in meta
	heard  bool  // another server listens
}

// logRow is a change without the object before it, which the cache has.
type logRow struct {
	op           resources.Op
	at           int64
	prevRevision int64
	object       *resources.Object
	transaction  string // number of its transaction; differs from that of neighbouring rows of other transactions
}

// The bounds of a page: it can be read within limits.read over a slow network too, and held in memory beside the cache.
const (
	pageRows  = 2048
	pageBytes = 4 << 20
)

// asker reads the log, through a connection or a pool.
type asker interface {
	// page returns the first changes after a revision: at most rows of them, and no more after the one that reaches
	// bytes.
	page(ctx context.Context, after int64, rows, bytes int) (*page, error)
}

// pageAfter reads the next page of the log: whole transactions, at least one, since a transaction must become visible
// as a whole.
func pageAfter(ctx context.Context, from asker, after int64) (*page, error) {
	seen := 0
	for rows, bytes := pageRows, pageBytes; ; rows, bytes = 2*rows, 2*bytes {
		p, err := from.page(ctx, after, rows, bytes)
		if err != nil || p.cut(after) || len(p.rows) == seen { // seen: there are no more rows
			return p, err
		}
		seen = len(p.rows)
	}
}

// cut removes the last transaction of an incomplete page, because the end of that transaction may be missing. It
// returns false, and does nothing, if the page has no other transaction.
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

// position is how far a store has come: a revision and the time of its commit (0: not known). The time tells a change
// from another one that got the same revision from a database that had lost the first.
type position struct{ revision, at int64 }

// astray reports whether the database does not continue what a store has seen at a position: it was restored from a
// backup, or it is a promoted replica, which lost the last commits or may have lost some.
func (p *page) astray(seen position) bool {
	return p.origin != p.actual || p.revision < seen.revision ||
		(seen.at != 0 && p.floor < seen.revision && p.askedAt.Int64 != seen.at)
}

// complete reports whether the page has all changes after a revision.
func (p *page) complete(after int64) bool {
	return p.revision <= after || (len(p.rows) > 0 && p.rows[len(p.rows)-1].object.Revision == p.revision)
}

// actualSQL is the origin of the row m of the table meta: cluster, timeline and table.
const actualSQL = `(SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || m.tableoid`

// The state of the store, from the row m of the table meta and the log.
const (
	// counterSQL is the counter. It is in meta only while servers of schema version 1 may be running. After that it
	// is the last revision of the log, or, once all of the log is pruned, the floor.
	counterSQL = `coalesce(m.revision, (SELECT l.revision FROM changes l WHERE l.revision > m.floor ORDER BY l.revision DESC LIMIT 1), m.floor)`
	// historyBytesSQL is the sum of the sizes of all changes after the floor.
	historyBytesSQL = `CASE WHEN m.revision IS NULL THEN coalesce((
  SELECT l.total FROM changes l WHERE l.revision > m.floor ORDER BY l.revision DESC LIMIT 1) - m.freed, 0) ELSE m.history_bytes END`

	selectStateSQL = `SELECT ` + counterSQL + `, m.floor, ` + historyBytesSQL + `,
(SELECT c.at FROM changes c WHERE c.revision = ` + counterSQL + `), m.ages FROM meta m`
)

// selectPageSQL repeats the state of the store in every row, so that all is read from one state of the database.
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

// errGap says that the log does not continue the cache.
var errGap = errors.New("the log does not continue the cache")

// events makes events of the rows after a revision. The object before each change is in the trees, or in an earlier
// row. Errors: errGap.
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
