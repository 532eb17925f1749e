package sqlstore

// The statements of SQLite that differ from those of statements.go: an object is stored once, in the row of its last
// change (step 9 of the migrations).
const (
	// storedOnce is the version of the tables from which on an object is stored once.
	storedOnce = 9

	// objectsView shows the objects as the table of that name does in Postgres. objectsTable is behind it.
	objectsView, objectsTable = "objects", "current"

	putCurrentSQL = `INSERT INTO current (resource, namespace, name, revision, expires, fields, data)
VALUES ($1, $2, $3, $4, $5, NULL, '')
ON CONFLICT (resource, namespace, name) DO UPDATE
SET revision = excluded.revision, expires = excluded.expires, fields = NULL, data = ''`

	deleteCurrentSQL = `DELETE FROM current WHERE resource = $1 AND namespace = $2 AND name = $3`

	// selectCurrentSQL selects what the view objects does, with the rowid of current.
	selectCurrentSQL = `SELECT o.resource, o.namespace, o.name, o.revision, CASE o.data WHEN '' THEN c.fields ELSE o.fields END,
coalesce(CASE o.data WHEN '' THEN c.data ELSE o.data END, '')
FROM current o LEFT JOIN changes c ON o.data = '' AND c.revision = o.revision`

	// selectFloorSQL returns the floor, and the revision up to which objects may be in no row of changes after it.
	selectFloorSQL = `SELECT floor, coalesce(inline, revision) FROM meta`

	// selectWindowSQL is selectOldestSQL. Whatever a change leaves behind, history counts its size until the floor
	// passes it.
	selectWindowSQL = `SELECT revision, at, size FROM changes WHERE revision > (SELECT floor FROM meta) AND revision <= $2 ORDER BY revision LIMIT $1`

	// sizeOfWindowSQL is how many bytes leave history when the floor is raised to a revision.
	sizeOfWindowSQL = `SELECT coalesce(sum(size), 0) FROM changes WHERE revision > (SELECT floor FROM meta) AND revision <= $1`

	// forgetPrevSQL removes the objects before the changes that leave history when the floor is raised to a revision. An
	// object stays for as long as it is not written again, and must not keep an earlier value of a Secret.
	forgetPrevSQL = `UPDATE changes SET size = max(0, size - octet_length(prev_data)), prev_data = NULL, prev_fields = NULL
WHERE revision > (SELECT floor FROM meta) AND revision <= $1 AND prev_data IS NOT NULL`

	// deletePastSQL deletes what history no longer needs when the floor is raised to a revision: the objects before the
	// changes that leave it, deletions, and objects that are in current itself. The last change of another object that
	// exists stays.
	deletePastSQL = `DELETE FROM changes WHERE revision IN (
SELECT c.prev_revision FROM changes c WHERE c.revision > (SELECT floor FROM meta) AND c.revision <= $1 AND c.prev_revision IS NOT NULL
UNION ALL SELECT c.revision FROM changes c WHERE c.revision > (SELECT floor FROM meta) AND c.revision <= $1 AND c.op = 'delete'
UNION ALL SELECT c.revision FROM changes c JOIN current o ON o.resource = c.resource AND o.namespace = c.namespace AND o.name = c.name AND o.revision = c.revision
WHERE c.revision > (SELECT floor FROM meta) AND c.revision <= min($1, (SELECT coalesce(inline, revision) FROM meta)) AND o.data <> '')`

	// deleteLogSQL deletes all of history, but for the objects that exist.
	deleteLogSQL = `DELETE FROM changes WHERE NOT EXISTS (SELECT 1 FROM current o
WHERE o.resource = changes.resource AND o.namespace = changes.namespace AND o.name = changes.name AND o.revision = changes.revision AND o.data = '')`
)
