package sqlstore

// The SQL of the store, one constant per statement. The text serves both databases; the migrations document the
// columns.
const (
	insertChangeSQL = `INSERT INTO changes (revision, at, size, op, resource, namespace, name, prev_revision,
fields, prev_fields, data, prev_data, author)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`

	// updateMetaSQL is conditional on the revision and the floor that it starts from, so that a second writer fails
	// before it does harm.
	updateMetaSQL = `UPDATE meta SET revision = $1, history_bytes = history_bytes + $2 WHERE revision = $3 AND floor = $4`

	selectCounterSQL = `SELECT revision FROM meta`

	selectMetaSQL = `SELECT revision, floor, history_bytes,
(SELECT at FROM changes WHERE changes.revision = meta.revision), ages FROM meta`

	noteAgesSQL = `UPDATE meta SET ages = $1`

	selectObjectsSQL = `SELECT resource, namespace, name, revision, fields, data FROM objects`

	// selectHistorySQL returns the floor in a row of its own, which comes first, so that the floor and the changes are
	// from one state of the database: otherwise a change that was pruned in between would be missing without a trace.
	// Both databases return the parts of a UNION ALL in order and without a copy; the reader checks the order. In that
	// row, the column op has the origin, if there can be several. The object before an update is taken from the earlier
	// change, if that is not in the answer itself. SQLite computes a row when it is read, so the reader just stops.
	selectHistorySQL = historyHeadSQL + `NULL` + historyMiddleSQL + `meta` + historyTailSQL + `SELECT *, 0 AS cost FROM changes` + historyRangeSQL + `) AS h`

	historyHeadSQL   = `SELECT floor, NULL AS revision, `
	historyMiddleSQL = ` AS op, NULL AS namespace, NULL AS name, NULL AS prev_revision,
NULL AS fields, NULL AS prev_fields, NULL AS data, NULL AS prev_data, 0 AS cost FROM `
	historyTailSQL = `
UNION ALL
SELECT 0 AS floor, h.revision, h.op, h.namespace, h.name, h.prev_revision, h.fields,
  CASE WHEN ` + elsewhereSQL + ` THEN (SELECT b.fields FROM changes b WHERE b.revision = h.prev_revision) ELSE h.prev_fields END, h.data,
  CASE WHEN ` + elsewhereSQL + ` THEN (SELECT b.data FROM changes b WHERE b.revision = h.prev_revision) ELSE h.prev_data END, h.cost
FROM (
  `
	historyRangeSQL = `
  WHERE resource = $1 AND revision > $2 AND revision <= $3
  AND ($4 = '' OR namespace = $4) AND ($5 = '' OR name = $5)
  ORDER BY revision LIMIT $6
`
	elsewhereSQL = `h.op = 'update' AND h.prev_data IS NULL AND h.prev_revision <= $2`

	// historyCutSQL selects the same changes, but none after the one whose cost, added to those before it, reaches so
	// many bytes: Postgres sends a client all rows, however few of them it reads. cost is about how many bytes of
	// objects the row has.
	historyCutSQL = `SELECT g.*, sum(g.cost) OVER (ORDER BY g.revision ROWS UNBOUNDED PRECEDING) - g.cost AS before FROM (
    SELECT h.*, h.size + CASE WHEN ` + elsewhereSQL + ` THEN coalesce((SELECT b.size FROM changes b WHERE b.revision = h.prev_revision), 0) ELSE 0 END AS cost
    FROM changes AS h` +
		historyRangeSQL + `) AS g ORDER BY g.revision
) AS h WHERE h.before < $7`

	selectRowSQL = `SELECT data, fields FROM objects WHERE resource = $1 AND namespace = $2 AND name = $3 AND revision = $4`

	// selectAuthorsSQL leaves out changes below the floor: the table keeps some of them, only for their objects.
	selectAuthorsSQL = `SELECT revision, at, op, namespace, name, prev_revision, author FROM changes
WHERE resource = $1 AND revision > $2 AND revision > (SELECT floor FROM meta) AND ($3 = '' OR namespace = $3) AND ($4 = '' OR name = $4)
ORDER BY revision LIMIT $5`

	// What follows, up to updateFloorSQL, is for Postgres: see sqlite_statements.go.

	// selectOldestSQL returns the first changes after the floor, with the bytes that become free when each leaves
	// history. With servers of schema version 1 the result is less than what becomes free, so a step of the janitor
	// removes more than it has to.
	selectOldestSQL = `SELECT c.revision, c.at, ` + freesSQL + ` AS frees FROM changes c
WHERE c.revision > (SELECT floor FROM meta) AND c.revision <= $2 ORDER BY c.revision LIMIT $1`

	// freesSQL is the size of the change before c of the same object, plus that of c itself if it is the object's last
	// change.
	freesSQL = `coalesce((SELECT b.size FROM changes b WHERE b.revision = c.prev_revision), 0) + CASE WHEN ` + lastSQL + ` THEN c.size ELSE 0 END`
	// lastSQL is whether c is the object's last change. If it is not, c has a successor after the floor.
	lastSQL = `(c.op = 'delete' OR c.revision = (SELECT o.revision FROM objects o
WHERE o.resource = c.resource AND o.namespace = c.namespace AND o.name = c.name))`

	// These parts, with the revision between them, select what is deleted when the floor is raised to it: the predecessors of the changes that leave history; of those
	// changes, the last ones of their objects; and, when history becomes empty, all changes. The last part is a bound,
	// not a condition on each change up to it: there may be many changes that stay below the floor, and they are not
	// read.
	freedHead   = `SELECT c.prev_revision FROM changes c WHERE c.revision > (SELECT floor FROM meta) AND c.prev_revision IS NOT NULL AND c.revision <= `
	freedMiddle = ` UNION ALL SELECT c.revision FROM changes c WHERE c.revision > (SELECT floor FROM meta) AND ` + lastSQL + ` AND c.revision <= `
	freedLast   = ` UNION ALL SELECT c.revision FROM changes c WHERE c.revision <= CASE WHEN EXISTS (SELECT 1 FROM changes l WHERE l.revision > `
	freedAll    = `) THEN 0 ELSE `
	freedEnd    = ` END`

	// updateFloorSQL resets the count when nothing is left, so that a wrong count does not stay wrong.
	updateFloorSQL = `UPDATE meta SET floor = CASE WHEN floor < $1 THEN $1 ELSE floor END,
history_bytes = CASE WHEN revision <= $1 OR history_bytes < $2 THEN 0 ELSE history_bytes - $2 END RETURNING history_bytes`

	selectDueSQL = `SELECT resource, namespace, name, revision, expires FROM objects
WHERE expires <= $1 AND expires >= $2 ORDER BY expires LIMIT $3`

	selectNextDueSQL = `SELECT expires FROM objects WHERE expires IS NOT NULL ORDER BY expires LIMIT 1`
)
