package sqlstore

// The SQL of the store, one place per statement. The text serves both databases; what the columns mean is said in the
// migrations.
const (
	upsertObjectSQL = `INSERT INTO objects (resource, namespace, name, revision, expires, fields, data)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (resource, namespace, name) DO UPDATE
SET revision = excluded.revision, expires = excluded.expires, fields = excluded.fields, data = excluded.data`

	deleteObjectSQL = `DELETE FROM objects WHERE resource = $1 AND namespace = $2 AND name = $3`

	insertChangeSQL = `INSERT INTO changes (revision, at, size, op, resource, namespace, name, prev_revision,
fields, prev_fields, data, prev_data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

	// updateMetaSQL names the revision it starts from, so that a second writer would be found out before it does harm.
	updateMetaSQL = `UPDATE meta SET revision = $1, history_bytes = history_bytes + $2 WHERE revision = $3`

	selectCounterSQL = `SELECT revision FROM meta`

	selectMetaSQL = `SELECT revision, floor, history_bytes,
(SELECT at FROM changes WHERE changes.revision = meta.revision) FROM meta`

	selectObjectsSQL = `SELECT resource, namespace, name, revision, fields, data FROM objects`

	// selectHistorySQL takes the floor along, in a row of its own that comes first, so that it and the changes are of
	// one state of the database: a change that was pruned in between would otherwise be missing without a trace. Both
	// databases return the parts of a UNION ALL in order and without a copy; who reads them checks that. In place of the
	// operation, that row has where it was read, where that is not always the same.
	selectHistorySQL = historyHeadSQL + `NULL` + historyMiddleSQL + `meta` + historyTailSQL

	historyHeadSQL   = `SELECT floor, NULL AS revision, `
	historyMiddleSQL = ` AS op, NULL AS namespace, NULL AS name, NULL AS prev_revision,
NULL AS fields, NULL AS prev_fields, NULL AS data, NULL AS prev_data FROM `
	historyTailSQL = `
UNION ALL
SELECT * FROM (
  SELECT 0 AS floor, revision, op, namespace, name, prev_revision, fields, prev_fields, data, prev_data FROM changes
  WHERE resource = $1 AND revision > $2 AND revision <= $3
  AND ($4 = '' OR namespace = $4) AND ($5 = '' OR name = $5)
  ORDER BY revision LIMIT $6
) AS c`

	selectOldestSQL = `SELECT revision, at, size FROM changes WHERE revision > $1 ORDER BY revision LIMIT $2`

	deleteChangesSQL = `DELETE FROM changes WHERE revision <= $1 RETURNING size`

	// updateFloorSQL counts from anew when nothing is left, so that a count that went wrong does not stay wrong.
	updateFloorSQL = `UPDATE meta SET floor = CASE WHEN floor < $1 THEN $1 ELSE floor END,
history_bytes = CASE WHEN revision <= $1 OR history_bytes < $2 THEN 0 ELSE history_bytes - $2 END RETURNING history_bytes`

	selectDueSQL = `SELECT resource, namespace, name, revision FROM objects
WHERE expires <= $1 ORDER BY expires LIMIT $2`

	selectNextDueSQL = `SELECT expires FROM objects WHERE expires IS NOT NULL ORDER BY expires LIMIT 1`
)
