package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/resources/views"
)

// sqliteViews writes the views for SQLite: for those in the file, and for those of a query, whose tables have as
// columns what has to be computed from the rows of the file.
type sqliteViews struct {
	bytes, encrypted string
	// changes are the changes in the log, and before them those in the object history.
	changes string
}

// inFile is evaluated by the SQLite that a client brings: it needs only features of 3.38, the first version with ->>.
var inFile = sqliteViews{bytes: "length(CAST(data AS BLOB))", encrypted: "substr(data, 1, 8) = '" + sealedPrefix + "'", changes: `(SELECT revision, at, op, resource, namespace, name, author, fields FROM revisions WHERE revision <= (SELECT floor FROM meta) UNION ALL
  SELECT c.revision, c.at, c.op, c.resource, c.namespace, c.name, c.author, r.fields FROM changes c LEFT JOIN revisions r ON r.revision = c.revision
  WHERE c.revision > (SELECT floor FROM meta))`}

// sqliteMark is in the statement of each of Rowlock's views.
const sqliteMark = "/* rowlock */"

// sqliteObject is the object of a row; NULL if it is not valid JSON.
const sqliteObject = "CASE WHEN json_valid(data) THEN data END AS o"

// internalRows is the suffix of the resources that no API serves.
const internalRows = ".rowlock.internal"

// query implements viewDialect. With a LIMIT, SQLite materialises the view's rows once and indexes them when they are
// joined with others, instead of reading objects again and again; unused columns are still not computed.
func (d sqliteViews) query(v views.View) string {
	annotations := "(o -> '$.metadata.annotations')"
	if v.Secret {
		annotations = "json_remove(" + annotations + ", " + objectPath(views.Members(views.LastApplied)) + ")"
	}
	return fmt.Sprintf("SELECT %s FROM (SELECT namespace, name, revision, %s FROM objects WHERE resource = %s) LIMIT -1",
		d.columns().list(v, annotations, ownerKindSQLite, ownerUIDSQLite), sqliteObject, textSQL(v.Resource))
}

const (
	ownerKindSQLite = "(value ->> '$.kind') || '/' || (value ->> '$.name')"
	ownerUIDSQLite  = "value ->> '$.uid'"
)

func (d sqliteViews) columns() jsonColumns {
	return jsonColumns{
		column: sqliteColumn,
		age:    func(time string) string { return "(unixepoch() - unixepoch(" + time + "))" },
		owner: func(value string) string {
			return "(SELECT " + value + " FROM json_each(o, '$.metadata.ownerReferences') WHERE type = 'object' ORDER BY coalesce(value ->> '$.controller', 0) DESC, key LIMIT 1)"
		},
	}
}

// objectPath returns the SQL of a path in an object.
func objectPath(p views.Path) string {
	var b strings.Builder
	b.WriteString("$")
	for _, s := range p {
		if s.Member != "" {
			b.WriteString(`."` + s.Member + `"`)
		} else {
			fmt.Fprintf(&b, "[%d]", s.Index)
		}
	}
	return textSQL(b.String())
}

func sqliteColumn(c views.Column) string {
	path, other := objectPath(c.Path), objectPath(c.Other)
	value := "(o ->> " + path + ")"
	switch c.Kind {
	case views.Text:
		if c.Other != nil {
			return "coalesce(" + value + ", o ->> " + other + ")"
		}
	case views.Number, views.Bool:
		return sqliteTyped(c.Kind, "o", path)
	case views.Count:
		return known("coalesce(" + sqliteTyped(views.Number, "o", path) + ", 0)")
	case views.JSON:
		return "(o -> " + path + ")"
	case views.Size:
		size := "(SELECT count(key) FROM json_each(o, " + path + "))" // for a scalar, json_each returns one row without a key
		if c.Other != nil {
			size += " + (SELECT count(key) FROM json_each(o, " + other + "))"
		}
		return known(size)
	case views.Computed:
		return computingSQLite.expand(computedColumns[c.Value])
	case views.Join:
		return "(SELECT group_concat(CASE type WHEN 'object' THEN value ->> " + other + " ELSE atom END, ',') FROM json_each(o, " + path + ") WHERE typeof(key) = 'integer')"
	case views.Ratio:
		return known("coalesce(" + value + ", 0) || '/' || coalesce(o ->> " + other + ", 0)")
	case views.Pair:
		return "(" + value + " || '/' || (o ->> " + other + "))"
	case views.Find:
		return "(SELECT " + sqliteTyped(c.Found, "value", other) + " FROM json_each(o, " + path + ") WHERE typeof(key) = 'integer' AND CASE type WHEN 'object' THEN value ->> " +
			objectPath(views.Members(c.Member)) + " END = " + textSQL(c.Value) + " ORDER BY key LIMIT 1)"
	}
	return value
}

// json_each returns a number as the key of a list's element.

// sqliteTyped returns the value at a path of an object; NULL where it is not of the kind, which is views.Number, views.Bool, or of any value.
func sqliteTyped(kind views.Kind, object, path string) string {
	text := "(OBJECT ->> PATH)"
	switch kind {
	case views.Number:
		text = "CASE WHEN json_type(OBJECT, PATH) IN ('integer', 'real') THEN (OBJECT ->> PATH) END"
	case views.Bool:
		text = "CASE WHEN json_type(OBJECT, PATH) IN ('true', 'false') THEN (OBJECT ->> PATH) END"
	}
	return ofObject(text, object, path)
}

// known returns the SQL of a number that is NULL, and not 0, if the row's object is not known.
func known(value string) string { return "CASE WHEN o IS NOT NULL THEN " + value + " END" }

// shared implements viewDialect.
func (d sqliteViews) shared(name string) string {
	const served = "resource NOT LIKE '%" + internalRows + "'"
	columns := d.columns()
	switch name {
	case "all_objects":
		return "SELECT resource, namespace, name, bytes, encrypted, (o ->> '$.apiVersion') AS api_version, (o ->> '$.kind') AS kind, " +
			columns.column(creation) + " AS created, " + columns.age(columns.column(creation)) + " AS age, " +
			columns.owner(ownerKindSQLite) + " AS owner, " + columns.owner(ownerUIDSQLite) + " AS owner_uid, " +
			"(o ->> '$.metadata.deletionTimestamp') AS deleting_since, (o ->> '$.metadata.uid') AS uid, revision AS resource_version " +
			"FROM (SELECT resource, namespace, name, revision, " + d.bytes + " AS bytes, " + d.encrypted + " AS encrypted, " + sqliteObject +
			" FROM objects WHERE " + served + ") LIMIT -1"
	case "all_owners":
		return "SELECT resource, namespace, name, (o ->> '$.metadata.uid') AS uid, (j.value ->> '$.apiVersion') AS owner_api_version, (j.value ->> '$.kind') AS owner_kind, " +
			"(j.value ->> '$.name') AS owner_name, (j.value ->> '$.uid') AS owner_uid, coalesce(j.value ->> '$.controller', 0) AS controller " +
			"FROM (SELECT resource, namespace, name, " + sqliteObject + " FROM objects WHERE " + served + "), " +
			"json_each(o, '$.metadata.ownerReferences') j WHERE j.type = 'object' LIMIT -1"
	case "pod_images":
		return "SELECT namespace, name AS pod, (o ->> '$.spec.nodeName') AS node, l.value AS list, (j.value ->> '$.name') AS container, (j.value ->> '$.image') AS image " +
			"FROM (SELECT namespace, name, " + sqliteObject + " FROM objects WHERE resource = 'pods'), " +
			`json_each('["initContainers","containers","ephemeralContainers"]') l, json_each(o, '$.spec.' || l.value) j WHERE j.type = 'object' LIMIT -1`
	}
	return "SELECT revision, strftime('%Y-%m-%dT%H:%M:%SZ', at / 1000, 'unixepoch') AS at, (unixepoch() - at / 1000) AS age, op, resource, namespace, name, " +
		"(author ->> '$.user') AS by_user, (author ->> '$.as') AS as_user, (author ->> '$.verb') AS verb, (author ->> '$.subresource') AS subresource, " +
		"(author ->> '$.agent') AS agent, fields FROM " + d.changes + " WHERE " + served + " LIMIT -1"
}

// viewsStep is how many views are created or removed in one transaction: few beside a batch.
const viewsStep = 16

// viewChange brings a view up to date, or removes it: all of its statements run, or none.
type viewChange struct {
	name       string
	statements []string
}

// keepViews implements driver: the views are written by the connection that writes, between batches. Other connections
// notice that at their next statement.
func (d *sqliteDriver) keepViews(ctx context.Context, wanted []views.View, onCommitter func(func() error) error) (left map[string]error, err error) {
	var have map[string]string
	var taken map[string]bool
	if err := onCommitter(func() (err error) { // a connection of its own would have to be opened for this, and would stay open
		have, taken, err = d.haveViews(ctx)
		return err
	}); err != nil {
		return nil, fmt.Errorf("look for the views: %w", err)
	}
	left = map[string]error{}
	var changes []viewChange
	for _, v := range defineViews(inFile, wanted) {
		had, ok := have[v.name]
		delete(have, v.name)
		text := "CREATE VIEW " + nameSQL(v.name) + " AS " + sqliteMark + " " + v.query
		switch err := v.sayable(); {
		case ok && had == text, !ok && taken[strings.ToLower(v.name)]:
		case err != nil:
			left[v.name] = err
		case ok:
			changes = append(changes, viewChange{v.name, []string{"DROP VIEW " + nameSQL(v.name), text}})
		default:
			changes = append(changes, viewChange{v.name, []string{text}})
		}
	}
	for name := range have {
		changes = append(changes, viewChange{name, []string{"DROP VIEW " + nameSQL(name)}})
	}
	for step := range slices.Chunk(changes, viewsStep) {
		if err := onCommitter(func() error { return d.changeViews(step, left) }); err != nil {
			return left, fmt.Errorf("keep the views: %w", err)
		}
	}
	return left, nil
}

// changeViews makes changes in a transaction. A change whose statements are refused is undone, and recorded in left.
func (d *sqliteDriver) changeViews(changes []viewChange, left map[string]error) error {
	return d.transaction(func(ctx context.Context) error {
		exec := func(statement string) error {
			_, err := d.writer.ExecContext(ctx, statement)
			return err
		}
		for _, c := range changes {
			err := exec("SAVEPOINT view")
			for i := 0; err == nil && i < len(c.statements); i++ {
				err = exec(c.statements[i])
			}
			end := "RELEASE view"
			if isStatementError(err) {
				left[c.name] = err
				end, err = "ROLLBACK TO view; RELEASE view", nil
			}
			if err == nil {
				err = exec(end)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// isStatementError reports whether a statement has failed because of itself, and not because of the state of the file.
func isStatementError(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG:
		return true
	}
	return false
}

// haveViews returns the statements of Rowlock's views, and all names that are taken, in lower case.
func (d *sqliteDriver) haveViews(ctx context.Context) (have map[string]string, taken map[string]bool, err error) {
	have, taken = map[string]string{}, map[string]bool{}
	rows, err := d.writer.QueryContext(ctx, "SELECT type, name, coalesce(sql, '') FROM sqlite_schema")
	err = eachRow(rows, err)(func(scan func(...any) error) error {
		var kind, name, text string
		if err := scan(&kind, &name, &text); err != nil {
			return err
		}
		if kind == "view" && strings.Contains(text, " AS "+sqliteMark) {
			have[name] = text
		}
		taken[strings.ToLower(name)] = true
		return nil
	})
	return have, taken, err
}
