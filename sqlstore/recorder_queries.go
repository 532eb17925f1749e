package sqlstore

import "github.com/rowlock/rowlock/sqlstore/recording"

// The SQL of the object history. The text serves both databases.
const (
	selectRecordingSQL = `SELECT revision, bytes, secret FROM recording`
	// forUpdate and skipLocked are added in Postgres: the row belongs to one server until its transaction ends.
	forUpdate  = ` FOR UPDATE`
	skipLocked = ` SKIP LOCKED`

	selectNoRecordingSQL = `SELECT NOT EXISTS (SELECT 1 FROM recording)`

	// insertRecordingSQL inserts the row of recording if there is none. Writes that are in revisions are not recorded
	// again.
	insertRecordingSQL = `INSERT INTO recording (id, revision, bytes)
SELECT 1, coalesce(max(revision), 0), coalesce(sum(size), 0) FROM revisions WHERE true ON CONFLICT DO NOTHING`

	insertRevisionSQL = `INSERT INTO revisions (revision, at, size, op, resource, namespace, name, uid, author, fields, data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

	// updateRecordingSQL is conditional on the previous position, so that a second writer fails before it does harm.
	updateRecordingSQL = `UPDATE recording SET revision = $1, bytes = $2, secret = $3 WHERE revision = $4`

	selectOldestRevisionSQL = `SELECT min(revision) FROM revisions`

	// ofStatusSQL is whether a write changed the status alone. fields is text: inside of a path a quote follows a
	// backslash, so each comma before a quote begins another path, or ends one, which then counts as another. Where the
	// paths are encrypted, unknown or too many, the author's subresource tells.
	ofStatusSQL = `CASE WHEN fields IS NULL OR fields LIKE '%,"..."]' THEN op = 'update' AND coalesce(author, '') LIKE '%"subresource":"status"%'
  ELSE fields = '["status"]' OR substr(fields, 1, 9) = '["status.' AND replace(fields, ',"status.', '') NOT LIKE '%,"%' END`

	// forgetOfObjectSQL keeps the last writes of an object ($5), and as many of the writes that changed its status
	// alone: controllers write the status of an object so often that these would displace all others.
	forgetOfObjectSQL = `DELETE FROM revisions WHERE revision IN (SELECT revision FROM (
  SELECT revision, row_number() OVER (PARTITION BY ` + ofStatusSQL + ` ORDER BY revision DESC) AS n FROM revisions
  WHERE resource = $1 AND namespace = $2 AND name = $3 AND uid = $4
) AS r WHERE n > $5 ORDER BY revision LIMIT $6) RETURNING size`

	forgetOldSQL = `DELETE FROM revisions WHERE revision IN (SELECT revision FROM revisions WHERE revision <= $1 ORDER BY revision LIMIT $2) RETURNING size`

	// forgetFirstSQL deletes the first revisions, until so many bytes ($2) or so many revisions ($1) are deleted.
	forgetFirstSQL = `DELETE FROM revisions WHERE revision IN (SELECT revision FROM (
  SELECT revision, sum(size) OVER (ORDER BY revision) - size AS before FROM (SELECT revision, size FROM revisions ORDER BY revision LIMIT $1) AS f
) AS g WHERE before < CAST($2 AS BIGINT)) RETURNING size`
)

// selectUnrecordedSQL returns the floor and, in the same rows, the changes after a revision ($1): at most $2 of them,
// and no more after the one that reaches $3 bytes. All is read from one state of the database, so that no change after
// the floor is missing. The objects of skipped changes are not read.
var selectUnrecordedSQL = `SELECT m.floor, c.revision, c.at, c.size, c.op, c.resource, c.namespace, c.name, c.author,
  CASE WHEN c.skip THEN NULL ELSE c.data END,
  CASE WHEN c.skip OR c.op <> 'update' THEN NULL
    ELSE coalesce(c.prev_data, (SELECT b.data FROM changes b WHERE b.revision = c.prev_revision)) END
FROM meta m LEFT JOIN (
  SELECT l.*, ` + recording.SkipsSQL("l.resource") + ` AS skip FROM changes l WHERE l.revision IN (
    SELECT revision FROM (
      SELECT revision, sum(size) OVER (ORDER BY revision) - size AS before FROM (
        SELECT revision, size FROM changes WHERE revision > $1 AND revision > (SELECT floor FROM meta) ORDER BY revision LIMIT $2
      ) AS f
    ) AS g WHERE before < CAST($3 AS BIGINT)
  )
) AS c ON true ORDER BY c.revision`
