package sqlstore

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
)

// postgresPart is what the tables have since a version of them.
type postgresPart struct {
	since int
	names []string
}

// The indexes, as what they are of; the columns, as what is in them, where a later version says it anew; and constraints.
var (
	postgresHasIndexes = []postgresPart{
		{1, []string{
			"meta_pkey UNIQUE USING btree (id)",
			"objects_pkey UNIQUE USING btree (resource, namespace, name)",
			"objects_expires USING btree (expires) WHERE (expires IS NOT NULL)",
			"changes_pkey UNIQUE USING btree (revision)",
			"changes_resource USING btree (resource, revision)",
		}},
		{2, []string{"servers_pkey UNIQUE USING btree (id)"}},
		{4, []string{
			"revisions_pkey UNIQUE USING btree (revision)",
			"revisions_object USING btree (resource, namespace, name, revision)",
			"revisions_at USING btree (at)",
			"revisions_trash USING btree (revision) WHERE (op = 'delete'::text)",
			"recording_pkey UNIQUE USING btree (id)",
		}},
	}
	postgresHasColumns = []postgresPart{
		{1, []string{
			"meta.id smallint NOT NULL", "meta.revision bigint NOT NULL", "meta.floor bigint NOT NULL", "meta.history_bytes bigint NOT NULL", "meta.origin text NOT NULL",
			`objects.resource text COLLATE "C" NOT NULL`, `objects.namespace text COLLATE "C" NOT NULL`, `objects.name text COLLATE "C" NOT NULL`,
			"objects.revision bigint NOT NULL", "objects.expires bigint", "objects.fields text", "objects.data text NOT NULL",
			"changes.revision bigint NOT NULL", "changes.at bigint NOT NULL", "changes.size bigint NOT NULL", "changes.op text NOT NULL",
			`changes.resource text COLLATE "C" NOT NULL`, `changes.namespace text COLLATE "C" NOT NULL`, `changes.name text COLLATE "C" NOT NULL`,
			"changes.prev_revision bigint", "changes.fields text", "changes.prev_fields text", "changes.data text NOT NULL", "changes.prev_data text",
		}},
		{2, []string{"meta.revision bigint", "meta.freed bigint NOT NULL", "changes.total bigint", "servers.id integer NOT NULL", "servers.pid integer NOT NULL"}},
		{3, []string{"changes.author text"}},
		{4, []string{
			"revisions.revision bigint NOT NULL", "revisions.at bigint NOT NULL", "revisions.size bigint NOT NULL", "revisions.op text NOT NULL",
			`revisions.resource text COLLATE "C" NOT NULL`, `revisions.namespace text COLLATE "C" NOT NULL`, `revisions.name text COLLATE "C" NOT NULL`,
			"revisions.uid text NOT NULL", "revisions.author text", "revisions.fields text", "revisions.data bytea NOT NULL",
			"recording.id smallint NOT NULL", "recording.revision bigint NOT NULL", "recording.bytes bigint NOT NULL", "recording.secret bytea",
		}},
		{5, []string{"meta.closed bigint"}},
		{6, []string{"meta.ages text"}},
	}
	postgresHasConstraints = []postgresPart{
		{1, []string{"constraint meta_id_check on meta", "constraint changes_op_check on changes"}},
		{4, []string{"constraint recording_id_check on recording"}},
	}
)

// hasAt are the names of parts that the tables have in a version.
func hasAt(version int, parts []postgresPart) (names []string) {
	for _, part := range parts {
		if part.since <= version {
			names = append(names, part.names...)
		}
	}
	return names
}

const (
	// postgresOurs chooses the tables from pg_class c.
	postgresOurs = `c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema())
AND c.relname IN ('meta', 'objects', 'changes', 'servers', 'revisions', 'recording', 'schema_migrations')`

	postgresIndexesSQL = `SELECT c.relname || CASE WHEN i.indisunique THEN ' UNIQUE' ELSE '' END ||
substring(pg_get_indexdef(c.oid) FROM ' USING .*$') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema()) AND i.indisvalid AND i.indisready`

	postgresColumnsSQL = `SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) ||
CASE WHEN l.collname = 'C' THEN ' COLLATE "C"' ELSE '' END || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attnum > 0 AND NOT a.attisdropped AND ` + postgresOurs

	// postgresOthersSQL finds what works on writes and reads: triggers, rules, constraints that are no keys.
	postgresOthersSQL = `SELECT 'trigger ' || t.tgname || ' on ' || c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND ` + postgresOurs + `
UNION ALL SELECT 'rule ' || r.rulename || ' on ' || c.relname FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE ` + postgresOurs + `
UNION ALL SELECT 'constraint ' || k.conname || ' on ' || c.relname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE k.contype NOT IN ('p', 'n') AND ` + postgresOurs

	postgresUnloggedSQL = `SELECT c.relname FROM pg_class c WHERE c.relpersistence <> 'p' AND ` + postgresOurs

	// postgresHidingSQL finds tables whose rows are hidden from their owner, or from who asks. Where they are from others alone, that is nobody's harm.
	postgresHidingSQL = `SELECT c.relname FROM pg_class c WHERE c.relrowsecurity AND (c.relforcerowsecurity OR row_security_active(c.oid)) AND ` + postgresOurs
)

func (v *verifier) postgresTables(ctx context.Context) error {
	indexes, err := v.texts(ctx, postgresIndexesSQL)
	if err != nil {
		return err
	}
	for _, name := range hasAt(v.state.Version, postgresHasIndexes) {
		if !slices.Contains(indexes, name) {
			v.found("database", doCopy, "has no valid index, or another one, where this should be: %s", name)
		}
	}
	columns, err := v.texts(ctx, postgresColumnsSQL)
	if err != nil {
		return err
	}
	v.compareColumns(columnsByName(hasAt(v.state.Version, postgresHasColumns)), columnsByName(columns))
	others, err := v.texts(ctx, postgresOthersSQL)
	if err != nil {
		return err
	}
	v.missing(hasAt(v.state.Version, postgresHasConstraints), others)
	v.others(hasAt(math.MaxInt, postgresHasConstraints), others)
	return v.postgresWays(ctx)
}

// columnsByName are what columns are, by table.column. Of two with one name it is the last.
func columnsByName(columns []string) map[string]string {
	is := map[string]string{}
	for _, column := range columns {
		name, what, _ := strings.Cut(column, " ")
		is[name] = what
	}
	return is
}

func (v *verifier) compareColumns(want, have map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		is, there := have[name]
		switch {
		case !there:
			v.found("database", doCopy, "has no column %s", name)
		case is != want[name]:
			v.found("database", doCopy, "has the column %s as %s, which should be %s", name, is, want[name])
		}
	}
}

// postgresWays looks whether the tables are kept over a crash, and all of their rows shown.
func (v *verifier) postgresWays(ctx context.Context) error {
	unlogged, err := v.texts(ctx, postgresUnloggedSQL)
	if err != nil {
		return err
	}
	for _, table := range unlogged {
		v.found("database", "run ALTER TABLE "+table+" SET LOGGED", "has the table %s outside of the write-ahead log: a crash of Postgres empties it", table)
	}
	hiding, err := v.texts(ctx, postgresHidingSQL)
	if err != nil {
		return err
	}
	for _, table := range hiding {
		v.found("database", "run ALTER TABLE "+table+" DISABLE ROW LEVEL SECURITY", "has row security on the table %s: rows of it are hidden from servers", table)
	}
	return nil
}
