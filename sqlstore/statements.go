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
fields, prev_fields, data, prev_data, author)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`

	// updateMetaSQL names the revision and the floor it starts from, so that a second writer would be found out before it
	// does harm.
	updateMetaSQL = `UPDATE meta SET revision = $1, history_bytes = history_bytes + $2 WHERE revision = $3 AND floor = $4`

	selectCounterSQL = `SELECT revision FROM meta`

	selectMetaSQL = `SELECT revision, floor, history_bytes,
(SELECT at FROM changes WHERE changes.revision = meta.revision), ages FROM meta`

	noteAgesSQL = `UPDATE meta SET ages = $1`

	selectObjectsSQL = `SELECT resource, namespace, name, revision, fields, data FROM objects`

	// selectHistorySQL takes the floor along, in a row of its own that comes first, so that it and the changes are of
	// one state of the database: a change that was pruned in between would otherwise be missing without a trace. Both
	// databases return the parts of a UNION ALL in order and without a copy; who reads them checks that. In place of the
	// operation, that row has where it was read, where that is not always the same. Of an update, the object before it is
	// taken from the change before it where that is not in the answer itself.
	selectHistorySQL = historyHeadSQL + `NULL` + historyMiddleSQL + `meta` + historyTailSQL

	historyHeadSQL   = `SELECT floor, NULL AS revision, `
	historyMiddleSQL = ` AS op, NULL AS namespace, NULL AS name, NULL AS prev_revision,
NULL AS fields, NULL AS prev_fields, NULL AS data, NULL AS prev_data FROM `
	historyTailSQL = `
UNION ALL
SELECT 0 AS floor, h.revision, h.op, h.namespace, h.name, h.prev_revision, h.fields,
  CASE WHEN ` + elsewhereSQL + ` THEN (SELECT b.fields FROM changes b WHERE b.revision = h.prev_revision) ELSE h.prev_fields END, h.data,
  CASE WHEN ` + elsewhereSQL + ` THEN (SELECT b.data FROM changes b WHERE b.revision = h.prev_revision) ELSE h.prev_data END
FROM (
  SELECT * FROM changes
  WHERE resource = $1 AND revision > $2 AND revision <= $3
  AND ($4 = '' OR namespace = $4) AND ($5 = '' OR name = $5)
  ORDER BY revision LIMIT $6
) AS h`
	elsewhereSQL = `h.op = 'update' AND h.prev_data IS NULL AND h.prev_revision <= $2`

	selectRowSQL = `SELECT data, fields FROM objects WHERE resource = $1 AND namespace = $2 AND name = $3 AND revision = $4`

	// selectAuthorsSQL leaves out what is below the floor: the table has it for the objects alone, and not all of it.
	selectAuthorsSQL = `SELECT revision, at, op, namespace, name, prev_revision, author FROM changes
WHERE resource = $1 AND revision > $2 AND revision > (SELECT floor FROM meta) AND ($3 = '' OR namespace = $3) AND ($4 = '' OR name = $4)
ORDER BY revision LIMIT $5`

	// selectOldestSQL says of each of the first changes after the floor what it sets free when it leaves history. Beside servers
	// of the version before it is less than that, so that a step of the janitor takes out more than it has to.
	selectOldestSQL = `SELECT c.revision, c.at, ` + freesSQL + ` AS frees FROM changes c
WHERE c.revision > (SELECT floor FROM meta) AND c.revision <= $2 ORDER BY c.revision LIMIT $1`

	// freesSQL is that of a change c: the one before it of its object, and itself where there is none after it.
	freesSQL = `coalesce((SELECT b.size FROM changes b WHERE b.revision = c.prev_revision), 0) + CASE WHEN ` + lastSQL + ` THEN c.size ELSE 0 END`
	// lastSQL is whether there is none. A change of which that is not true has a successor after the floor.
	lastSQL = `(c.op = 'delete' OR c.revision = (SELECT o.revision FROM objects o
WHERE o.resource = c.resource AND o.namespace = c.namespace AND o.name = c.name))`

	// deleteChangesSQL deletes what history no longer needs when the floor is raised to a revision.
	deleteChangesSQL = `DELETE FROM changes WHERE revision IN (` + freedHead + `$1` + freedMiddle + `$1` + freedLast + `$1` + freedAll +
		`$1` + freedEnd + `) RETURNING size`

	// Those are, with the revision between the parts: the changes before the ones that leave history; of these, the last of their
	// objects; and when none is left, all there are. That is a bound, not a condition on each change up to it: changes that stay
	// below the floor may be many, and are not looked at.
	freedHead   = `SELECT c.prev_revision FROM changes c WHERE c.revision > (SELECT floor FROM meta) AND c.prev_revision IS NOT NULL AND c.revision <= `
	freedMiddle = ` UNION ALL SELECT c.revision FROM changes c WHERE c.revision > (SELECT floor FROM meta) AND ` + lastSQL + ` AND c.revision <= `
	freedLast   = ` UNION ALL SELECT c.revision FROM changes c WHERE c.revision <= CASE WHEN EXISTS (SELECT 1 FROM changes l WHERE l.revision > `
	freedAll    = `) THEN 0 ELSE `
	freedEnd    = ` END`

	// updateFloorSQL counts from anew when nothing is left, so that a count that went wrong does not stay wrong.
	updateFloorSQL = `UPDATE meta SET floor = CASE WHEN floor < $1 THEN $1 ELSE floor END,
history_bytes = CASE WHEN revision <= $1 OR history_bytes < $2 THEN 0 ELSE history_bytes - $2 END RETURNING history_bytes`

	selectDueSQL = `SELECT resource, namespace, name, revision, expires FROM objects
WHERE expires <= $1 AND expires >= $2 ORDER BY expires LIMIT $3`

	selectNextDueSQL = `SELECT expires FROM objects WHERE expires IS NOT NULL ORDER BY expires LIMIT 1`
)
