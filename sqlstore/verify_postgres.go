package sqlstore

import (
	"context"
	"math"
)

// postgresPart lists parts of the tables that exist since a version.
type postgresPart struct {
	since int
	names []string
}

// The indexes with their definitions, the columns with their types, and the constraints. (meta.revision was different
// in version 1.)
var postgresParts = []postgresPart{
	{1, []string{
		"index meta_pkey UNIQUE USING btree (id)",
		"index objects_pkey UNIQUE USING btree (resource, namespace, name)",
		"index objects_expires USING btree (expires) WHERE (expires IS NOT NULL)",
		"index changes_pkey UNIQUE USING btree (revision)",
		"index changes_resource USING btree (resource, revision)",
	}},
	{2, []string{"index servers_pkey UNIQUE USING btree (id)"}},
	{4, []string{
		"index revisions_pkey UNIQUE USING btree (revision)",
		"index revisions_object USING btree (resource, namespace, name, revision)",
		"index revisions_at USING btree (at)",
		"index revisions_trash USING btree (revision) WHERE (op = 'delete'::text)",
		"index recording_pkey UNIQUE USING btree (id)",
	}},
	{1, []string{
		"column meta.id smallint NOT NULL", "column meta.floor bigint NOT NULL", "column meta.history_bytes bigint NOT NULL", "column meta.origin text NOT NULL",
		`column objects.resource text COLLATE "C" NOT NULL`, `column objects.namespace text COLLATE "C" NOT NULL`, `column objects.name text COLLATE "C" NOT NULL`,
		"column objects.revision bigint NOT NULL", "column objects.expires bigint", "column objects.fields text", "column objects.data text NOT NULL",
		"column changes.revision bigint NOT NULL", "column changes.at bigint NOT NULL", "column changes.size bigint NOT NULL", "column changes.op text NOT NULL",
		`column changes.resource text COLLATE "C" NOT NULL`, `column changes.namespace text COLLATE "C" NOT NULL`, `column changes.name text COLLATE "C" NOT NULL`,
		"column changes.prev_revision bigint", "column changes.fields text", "column changes.prev_fields text", "column changes.data text NOT NULL", "column changes.prev_data text",
	}},
	{2, []string{"column meta.revision bigint", "column meta.freed bigint NOT NULL", "column changes.total bigint", "column servers.id integer NOT NULL", "column servers.pid integer NOT NULL"}},
	{3, []string{"column changes.author text"}},
	{4, []string{
		"column revisions.revision bigint NOT NULL", "column revisions.at bigint NOT NULL", "column revisions.size bigint NOT NULL", "column revisions.op text NOT NULL",
		`column revisions.resource text COLLATE "C" NOT NULL`, `column revisions.namespace text COLLATE "C" NOT NULL`, `column revisions.name text COLLATE "C" NOT NULL`,
		"column revisions.uid text NOT NULL", "column revisions.author text", "column revisions.fields text", "column revisions.data bytea NOT NULL",
		"column recording.id smallint NOT NULL", "column recording.revision bigint NOT NULL", "column recording.bytes bigint NOT NULL", "column recording.secret bytea",
	}},
	{5, []string{"column meta.closed bigint"}},
	{6, []string{"column meta.ages text"}},
	{1, []string{"constraint meta_id_check on meta", "constraint changes_op_check on changes"}},
	{4, []string{"constraint recording_id_check on recording"}},
}

// hasAt returns the names of the parts that the tables have in a version.
func hasAt(version int, parts []postgresPart) (names []string) {
	for _, part := range parts {
		if part.since <= version {
			names = append(names, part.names...)
		}
	}
	return names
}

const (
	// postgresOurs selects the store's tables from pg_class c.
	postgresOurs = `c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema())
AND c.relname IN ('meta', 'objects', 'changes', 'servers', 'revisions', 'recording', 'schema_migrations')`

	postgresPartsSQL = `SELECT 'index ' || c.relname || CASE WHEN i.indisunique THEN ' UNIQUE' ELSE '' END ||
substring(pg_get_indexdef(c.oid) FROM ' USING .*$') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema()) AND i.indisvalid AND i.indisready
UNION ALL SELECT 'constraint ' || k.conname || ' on ' || c.relname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE ` + postgresOurs + `
UNION ALL SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) ||
CASE WHEN l.collname = 'C' THEN ' COLLATE "C"' ELSE '' END || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attnum > 0 AND NOT a.attisdropped AND ` + postgresOurs

	// postgresOthersSQL finds objects that affect writes and reads: triggers, rules, constraints that are no keys;
	// tables that a crash of Postgres empties; row security that hides rows from the owner, or from the present role.
	// It ignores row security that hides rows only from other roles.
	postgresOthersSQL = `SELECT 'trigger ' || t.tgname || ' on ' || c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND ` + postgresOurs + `
UNION ALL SELECT 'rule ' || r.rulename || ' on ' || c.relname FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE ` + postgresOurs + `
UNION ALL SELECT 'constraint ' || k.conname || ' on ' || c.relname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE k.contype NOT IN ('p', 'n') AND ` + postgresOurs + `
UNION ALL SELECT 'UNLOGGED on the table ' || c.relname FROM pg_class c WHERE c.relpersistence <> 'p' AND ` + postgresOurs + `
UNION ALL SELECT 'row security on ' || c.relname FROM pg_class c
WHERE c.relrowsecurity AND (c.relforcerowsecurity OR row_security_active(c.oid)) AND ` + postgresOurs
)

func (v *verifier) postgresTables(ctx context.Context) error {
	if _, err := v.texts(ctx, "SELECT set_config('quote_all_identifiers', 'off', true)"); err != nil { // overrides the role's setting
		return err
	}
	have, err := v.texts(ctx, postgresPartsSQL)
	if err != nil {
		return err
	}
	others, err := v.texts(ctx, postgresOthersSQL)
	v.missing(hasAt(v.state.Version, postgresParts), have)
	v.others(hasAt(math.MaxInt, postgresParts), others)
	return err
}
