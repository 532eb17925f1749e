package sqlstore

import (
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/resources/views"
)

// postgresViews writes the views for Postgres.
type postgresViews struct {
	// tables is the schema of the tables.
	tables string
	// checked is set if the database can test whether a text is valid jsonb without failing (16 and later).
	checked bool
}

// zerosOf and areReplaced are around a column with JSON, in which they replace U+0000, which jsonb does not have, by
// U+FFFD (see withoutNUL). Before u0000, an escaped backslash is no such escape: U+0001, which JSON has only as an escape,
// stands for it meanwhile.
const (
	zerosOf     = "replace(replace(replace("
	areReplaced = `, E'\\\\', chr(1)), E'\\u0000', E'\\ufffd'), chr(1), E'\\\\')`
)

// object returns the object of a row; NULL if the row is encrypted. Data that end with a space contain JSON as a client
// sent it (see resources/sent.go), which jsonb may refuse also without U+0000.
func (d postgresViews) object() string {
	const data = zerosOf + "data" + areReplaced
	check := ""
	if d.checked {
		check = "WHEN right(data, 1) = ' ' AND NOT pg_input_is_valid(" + data + ", 'jsonb') THEN NULL "
	}
	return "CASE WHEN left(data, 1) <> '{' THEN NULL " + check + "ELSE (" + data + ")::jsonb END AS o"
}

// from returns the rows of a table with their objects, each of which is parsed once.
func (d postgresViews) from(where string) string {
	return "FROM " + nameSQL(d.tables) + ".objects, LATERAL (SELECT " + d.object() + " OFFSET 0) AS j WHERE " + where
}

// query implements viewDialect.
func (d postgresViews) query(v views.View) string {
	annotations := "(o #> '{metadata,annotations}')"
	if v.Secret {
		annotations = "CASE jsonb_typeof" + annotations + " WHEN 'object' THEN " + annotations + " - " + textSQL(views.LastApplied) + " END"
	}
	return "SELECT " + d.columns().list(v, annotations, ownerKindPostgres, ownerUIDPostgres) + " " + d.from("resource = "+textSQL(v.Resource))
}

const (
	ownerKindPostgres = "(e ->> 'kind') || '/' || (e ->> 'name')"
	ownerUIDPostgres  = "e ->> 'uid'"
)

func (d postgresViews) columns() jsonColumns {
	return jsonColumns{
		column: postgresColumn,
		age: func(time string) string {
			return "floor(extract(epoch FROM now() - " + time + "::timestamptz))::bigint"
		},
		owner: func(value string) string {
			return "(SELECT " + value + " FROM " + elements(postgresPath(views.Members("metadata", "ownerReferences"))) +
				" ORDER BY coalesce(e ->> 'controller' = 'true', false) DESC, n LIMIT 1)"
		},
	}
}

// postgresPath returns the SQL of a path in an object.
func postgresPath(p views.Path) string {
	steps := make([]string, len(p))
	for i, s := range p {
		steps[i] = textSQL(s.Member)
		if s.Member == "" {
			steps[i] = fmt.Sprintf("'%d'", s.Index)
		}
	}
	return "ARRAY[" + strings.Join(steps, ", ") + "]::text[]"
}

// elements returns the elements, e, of the list at a path, with their numbers, n; none if there is no list.
func elements(path string) string {
	return "jsonb_array_elements(CASE jsonb_typeof(o #> " + path + ") WHEN 'array' THEN o #> " + path + " ELSE '[]'::jsonb END) WITH ORDINALITY AS t(e, n)"
}

// sizeOf returns the number of elements or members at a path.
func sizeOf(path string) string {
	return "coalesce(CASE jsonb_typeof(o #> " + path + ") WHEN 'array' THEN jsonb_array_length(o #> " + path +
		") WHEN 'object' THEN (SELECT count(*) FROM jsonb_object_keys(o #> " + path + ")) END, 0)"
}

// postgresTyped is sqliteTyped for Postgres.
func postgresTyped(kind views.Kind, object, path string) string {
	text := "(OBJECT #>> PATH)"
	switch kind {
	case views.Number:
		text = "CASE jsonb_typeof(OBJECT #> PATH) WHEN 'number' THEN (OBJECT #>> PATH)::numeric END"
	case views.Bool:
		text = "CASE jsonb_typeof(OBJECT #> PATH) WHEN 'boolean' THEN (OBJECT #>> PATH)::boolean END"
	}
	return ofObject(text, object, path)
}

func postgresColumn(c views.Column) string {
	path, other := postgresPath(c.Path), postgresPath(c.Other)
	value := "(o #>> " + path + ")"
	switch c.Kind {
	case views.Text:
		if c.Other != nil {
			return "coalesce(" + value + ", o #>> " + other + ")"
		}
	case views.Number, views.Bool:
		return postgresTyped(c.Kind, "o", path)
	case views.Count:
		return known("coalesce(" + postgresTyped(views.Number, "o", path) + ", 0)")
	case views.JSON:
		return "(o #> " + path + ")"
	case views.Size:
		size := sizeOf(path)
		if c.Other != nil {
			size += " + " + sizeOf(other)
		}
		return known(size)
	case views.Computed:
		return computingPostgres.expand(computedColumns[c.Value])
	case views.Join:
		return "(SELECT string_agg(CASE jsonb_typeof(e) WHEN 'object' THEN e #>> " + other + " ELSE e #>> '{}' END, ',' ORDER BY n) FROM " + elements(path) + ")"
	case views.Ratio:
		return known("coalesce(" + value + ", '0') || '/' || coalesce(o #>> " + other + ", '0')")
	case views.Pair:
		return "(" + value + " || '/' || (o #>> " + other + "))"
	case views.Find:
		return "(SELECT " + postgresTyped(c.Found, "e", other) + " FROM " + elements(path) + " WHERE e ->> " + textSQL(c.Member) + " = " + textSQL(c.Value) + " ORDER BY n LIMIT 1)"
	}
	return value
}

// shared implements viewDialect.
func (d postgresViews) shared(name string) string {
	served := fmt.Sprintf("right(resource, %d) <> '%s'", len(internalRows), internalRows)
	columns := d.columns()
	switch name {
	case "all_objects":
		return "SELECT resource, namespace, name, octet_length(data) AS bytes, left(data, 8) = '" + sealedPrefix + "' AS encrypted, " +
			"(o ->> 'apiVersion') AS api_version, (o ->> 'kind') AS kind, " +
			columns.column(creation) + " AS created, " + columns.age(columns.column(creation)) + " AS age, " +
			columns.owner(ownerKindPostgres) + " AS owner, " + columns.owner(ownerUIDPostgres) + " AS owner_uid, " +
			"(o #>> '{metadata,deletionTimestamp}') AS deleting_since, (o #>> '{metadata,uid}') AS uid, revision AS resource_version " + d.from(served)
	case "all_owners":
		return "SELECT resource, namespace, name, (o #>> '{metadata,uid}') AS uid, (e ->> 'apiVersion') AS owner_api_version, (e ->> 'kind') AS owner_kind, " +
			"(e ->> 'name') AS owner_name, (e ->> 'uid') AS owner_uid, coalesce(e ->> 'controller' = 'true', false) AS controller " +
			strings.Replace(d.from(served), " WHERE ", ", LATERAL "+elements("'{metadata,ownerReferences}'::text[]")+" WHERE ", 1)
	case "pod_images":
		return "SELECT namespace, name AS pod, (o #>> '{spec,nodeName}') AS node, l.list, (e ->> 'name') AS container, (e ->> 'image') AS image " +
			strings.Replace(d.from("resource = 'pods'"), " WHERE ", ", (VALUES ('initContainers'), ('containers'), ('ephemeralContainers')) AS l(list), LATERAL "+
				elements("ARRAY['spec', l.list]")+" WHERE ", 1)
	}
	return `SELECT revision, to_char(to_timestamp(at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at, ` +
		"floor(extract(epoch FROM now()))::bigint - at / 1000 AS age, op, resource, namespace, name, " +
		"(a ->> 'user') AS by_user, (a ->> 'as') AS as_user, (a ->> 'verb') AS verb, (a ->> 'subresource') AS subresource, (a ->> 'agent') AS agent, " +
		zerosOf + "fields" + areReplaced + "::jsonb AS fields FROM (" + d.changes() + ") AS c, LATERAL (SELECT " + zerosOf + "author" + areReplaced + "::jsonb AS a OFFSET 0) AS j " +
		"WHERE " + served
}

// changes returns the changes in the log, and before them those in the object history.
func (d postgresViews) changes() string {
	tables := nameSQL(d.tables)
	floor := "(SELECT floor FROM " + tables + ".meta)"
	return "SELECT revision, at, op, resource, namespace, name, author, fields FROM " + tables + ".revisions WHERE revision <= " + floor + " UNION ALL " +
		"SELECT c.revision, c.at, c.op, c.resource, c.namespace, c.name, c.author, r.fields FROM " + tables + ".changes c LEFT JOIN " + tables +
		".revisions r ON r.revision = c.revision WHERE c.revision > " + floor
}
