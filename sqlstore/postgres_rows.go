package sqlstore

import (
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
)

// logColumns holds rows of changes, a slice per column as unnest takes them.
type logColumns struct {
	revision, at, size, total []int64
	op                        []string
	resource, namespace, name []string
	prevRevision              []*int64
	fields, prevFields        []*string
	data                      []string
	prevData, author          []*string
}

func (c *logColumns) add(r *changeRow) {
	c.revision, c.at, c.size = append(c.revision, r.revision), append(c.at, r.at), append(c.size, r.size)
	c.op, c.resource = append(c.op, r.op), append(c.resource, r.resource)
	c.namespace, c.name = append(c.namespace, r.namespace), append(c.name, r.name)
	c.prevRevision = append(c.prevRevision, intOrNull(r.prevRevision))
	c.fields, c.prevFields = append(c.fields, textOrNull(r.fields)), append(c.prevFields, textOrNull(r.prevFields))
	c.data, c.prevData = append(c.data, r.data), append(c.prevData, textOrNull(r.prevData))
	c.author = append(c.author, textOrNull(r.author))
}

// objectColumns holds rows of objects.
type objectColumns struct {
	resource, namespace, name []string
	revision                  []int64
	expires                   []*int64
	fields                    []*string
	data                      []string
}

func (c *objectColumns) add(r *changeRow, expires int64) {
	c.addKey(r)
	c.revision = append(c.revision, r.revision)
	c.expires = append(c.expires, intOrNull(sql.NullInt64{Int64: expires, Valid: expires > 0}))
	c.fields, c.data = append(c.fields, textOrNull(r.fields)), append(c.data, r.data)
}

func (c *objectColumns) addKey(r *changeRow) {
	c.resource = append(c.resource, r.resource)
	c.namespace, c.name = append(c.namespace, r.namespace), append(c.name, r.name)
}

// queueRows queues the changes of a batch to the tables, a statement for each kind. total is how many bytes were
// written to the log before it, since the database was created.
func queueRows(s *pgx.Batch, b *batch, total int64) {
	last := make(map[resources.Key]int64, len(b.changes))
	for i := range b.changes {
		last[b.changes[i].event.Object.Key] = b.changes[i].event.Revision
	}
	var log logColumns
	var stored, deleted objectColumns
	for i := range b.changes {
		c := &b.changes[i]
		row := newChangeRow(c, b.at)
		log.add(&row)
		total += row.size
		log.total = append(log.total, total)
		switch {
		case last[c.event.Object.Key] != c.event.Revision: // a later change of the batch has the final state
		case c.event.Op == resources.Delete:
			deleted.addKey(&row)
		default:
			stored.add(&row, c.expires)
		}
	}
	s.Queue(unnestChangesSQL, log.revision, log.at, log.size, log.op, log.resource, log.namespace, log.name,
		log.prevRevision, log.fields, log.prevFields, log.data, log.prevData, log.total, log.author)
	if len(stored.name) > 0 {
		s.Queue(unnestObjectsSQL, stored.resource, stored.namespace, stored.name, stored.revision, stored.expires,
			stored.fields, stored.data)
	}
	if len(deleted.name) > 0 {
		s.Queue(unnestDeletesSQL, deleted.resource, deleted.namespace, deleted.name)
	}
}

func intOrNull(n sql.NullInt64) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.Int64
}

func textOrNull(s sql.NullString) *string {
	if !s.Valid {
		return nil
	}
	return &s.String
}
