package sqlstore

import (
	"database/sql"

	"modernc.org/sqlite/vtab"
)

const (
	// selectOldChangesSQL selects what the object history has of the writes that the log has no more; selectNewChangesSQL
	// selects the log, with what the object history knows besides. Both begin after a revision ($1).
	selectOldChangesSQL = `SELECT revision, at, op, resource, namespace, name, author, fields FROM revisions
WHERE revision > $1 AND revision <= (SELECT floor FROM meta) ORDER BY revision`
	selectNewChangesSQL = `SELECT revision, at, op, resource, namespace, name, author,
  (SELECT r.fields FROM revisions r WHERE r.revision = c.revision) FROM changes c
WHERE revision > $1 AND revision > (SELECT floor FROM meta) ORDER BY revision`

	// selectChangesBeforeHistorySQL and selectChangesBeforeAuthorsSQL are for tables of earlier versions.
	selectChangesBeforeHistorySQL = `SELECT revision, at, op, resource, namespace, name, author, NULL FROM changes
WHERE revision > $1 AND revision > (SELECT floor FROM meta) ORDER BY revision`
	selectChangesBeforeAuthorsSQL = `SELECT revision, at, op, resource, namespace, name, NULL, NULL FROM changes
WHERE revision > $1 AND revision > (SELECT floor FROM meta) ORDER BY revision`
)

// changes reads a page of the table changes: of the object history up to the floor, and of the log after it.
func (c *rowsCursor) changes() (page [][]vtab.Value, err error) {
	for len(page) == 0 && !c.over && err == nil {
		var after int64
		if c.last != nil {
			after = c.last[0].(int64)
		}
		statement := selectNewChangesSQL
		switch version := c.source.state.Version - c.source.authorVersion(); {
		case version < 0:
			statement = selectChangesBeforeAuthorsSQL
		case version == 0:
			statement = selectChangesBeforeHistorySQL
		case !c.inLog:
			statement = selectOldChangesSQL
		}
		page, err = c.read(statement, []any{after}, oneChange)
		if c.over && statement == selectOldChangesSQL {
			c.inLog, c.over = true, false
		}
	}
	return page, err
}

func oneChange(rows *sql.Rows) ([]vtab.Value, bool, error) {
	var revision, at int64
	var op, resource, namespace, name string
	var author, fields sql.NullString
	if err := rows.Scan(&revision, &at, &op, &resource, &namespace, &name, &author, &fields); err != nil {
		return nil, false, err
	}
	values := []vtab.Value{revision, at, op, resource, namespace, name, nil, nil}
	if author.Valid {
		values[6] = withoutNUL(author.String)
	}
	if fields.Valid {
		values[7] = withoutNUL(fields.String)
	}
	return values, !isHidden(resource), nil
}

// authorVersion is the version of the tables since which changes have authors. The next version has the object history.
func (s *Source) authorVersion() int {
	if s.postgres {
		return 3
	}
	return 4
}
