package sqlstore

import (
	"context"
	"database/sql"
	"strconv"
)

// meta checks the row of the table meta.
func (v *verifier) meta(ctx context.Context) error {
	var rows int
	if err := v.tx.QueryRowContext(ctx, "SELECT count(*) FROM meta").Scan(&rows); err != nil {
		return err
	}
	if rows != 1 {
		v.found("meta", doCopy, "has %d rows, and not one", rows)
		if rows == 0 {
			return nil
		}
	}
	if err := v.tx.QueryRowContext(ctx, "SELECT floor FROM meta").Scan(&v.floor); err != nil {
		return err
	}
	if v.state.Revision < 0 || v.state.Revision > RevisionMax {
		v.found("meta", doDisk, "the counter is at %d, to which no writes and no restore lead", v.state.Revision)
	}
	if v.floor > v.state.Revision {
		v.found("meta", doCopy, "history begins at revision %d, and the counter is at %d", v.floor, v.state.Revision)
	}
	if v.postgres {
		return nil // the log itself has the sum
	}
	after := v.floor
	if v.state.Version < storedOnce {
		after = -1 // history counted what it kept below the floor, too
	}
	var counted, sum int64
	if err := v.tx.QueryRowContext(ctx, "SELECT history_bytes, (SELECT coalesce(sum(size), 0) FROM changes WHERE changes.revision > $1) FROM meta", after).Scan(&counted, &sum); err != nil {
		return err
	}
	if counted != sum {
		v.found("meta", doLog, "counts %d bytes of history, and there are %d", counted, sum)
	}
	return nil
}

// latest is the last change of an object in the log.
type latest struct {
	revision int64
	op       string
	digest   uint64
	seen     bool // the object exists
}

// logged is a row of the log.
type logged struct {
	Row
	op                   string
	prev                 sql.NullInt64
	prevFields, prevData *string
	author               sql.NullString
}

// log checks that the log has every change after the floor, and that each continues the previous one of its object.
func (v *verifier) log(ctx context.Context) error {
	author := "author"
	if v.state.Version < 3 || !v.postgres && v.state.Version < 4 { // earlier versions have no authors
		author = "NULL"
	}
	rows, err := v.tx.QueryContext(ctx, `SELECT revision, op, resource, namespace, name, prev_revision, fields, prev_fields, data, prev_data, `+author+`
FROM changes ORDER BY revision`)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	last := v.floor
	for rows.Next() {
		var c logged
		if err := rows.Scan(&c.Revision, &c.op, &c.Resource, &c.Namespace, &c.Name, &c.prev, &c.Fields, &c.prevFields, &c.Data, &c.prevData, &c.author); err != nil {
			return err
		}
		v.result.Changes++
		if c.Revision > v.floor {
			if c.Revision != last+1 {
				v.found(c.where(), doLog, "follows revision %d: what is between is lost", last)
			}
			last = c.Revision
			v.continues(&c)
		}
		if _, err := decodeAuthor(c.author); err != nil {
			v.found(c.where(), doLog, "says wrongly who made it: %v", err)
		}
		digest, err := v.object(ctx, c.where(), c.Row, v.DecodePast)
		if err != nil {
			return err
		}
		v.latest[c.Key] = &latest{revision: c.Revision, op: c.op, digest: digest}
		if c.prevData != nil && c.prev.Valid {
			prev := Row{Key: c.Key, Revision: c.prev.Int64, Fields: c.prevFields, Data: *c.prevData}
			if _, err := v.object(ctx, c.where()+" (the object before it)", prev, v.DecodePast); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if last != v.state.Revision && v.floor <= v.state.Revision {
		v.found("changes", doLog, "ends with revision %d, and the counter is at %d", last, v.state.Revision)
	}
	return nil
}

func (c *logged) where() string {
	return "changes " + strconv.FormatInt(c.Revision, 10) + " (" + c.Key.String() + ")"
}

// continues checks that a change fits the previous one of the same object.
func (v *verifier) continues(c *logged) {
	before := v.latest[c.Key]
	there := before != nil && before.op != "delete"
	switch {
	case c.op != "create" && c.op != "update" && c.op != "delete":
		v.found(c.where(), doLog, "is an unknown operation %q", c.op)
	case c.op == "create" && c.prev.Valid:
		v.found(c.where(), doLog, "creates what was there at revision %d", c.prev.Int64)
	case c.op == "create" && there && before.revision > v.floor:
		v.found(c.where(), doLog, "creates what is there since revision %d", before.revision)
	case c.op == "create":
	case !c.prev.Valid:
		v.found(c.where(), doLog, "does not say what was before it")
	case before != nil && before.revision > v.floor && (!there || before.revision != c.prev.Int64):
		v.found(c.where(), doLog, "continues revision %d, and the change before it is %s at revision %d", c.prev.Int64, before.op, before.revision)
	case (before == nil || before.revision <= v.floor) && c.prev.Int64 > v.floor:
		v.found(c.where(), doLog, "continues revision %d, which the log should have", c.prev.Int64)
	case c.op == "update" && c.prevData == nil && (before == nil || before.revision != c.prev.Int64):
		v.found(c.where(), doLog, "has no object before it, and revision %d is not there", c.prev.Int64)
	}
}
