package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Each of these statements raises the floor and deletes the changes that history no longer needs: pruneSQL up to a
// revision; cutSQL the oldest changes up to a revision ($2), until so many bytes ($3) or so many changes ($1) are
// deleted. While servers of schema version 1 may be running, all changes up to the floor are deleted
// (legacyPruneSQL, legacyCutSQL), as those servers do: every update is then stored with the object before it.
const (
	pruneSQL = `WITH ` + pruneToSQL + `, ` + deleteCutSQL + raiseFloorSQL + ` RETURNING ` + historyBytesSQL
	cutSQL   = `WITH oldest AS (SELECT revision, sum(frees) OVER (ORDER BY revision) - frees AS before FROM (` + selectOldestSQL + `) AS c),
` + cutToSQL + `, ` + deleteCutSQL + raiseFloorSQL + ` RETURNING cut.floor, ` + historyBytesSQL

	legacyPruneSQL = `WITH ` + pruneToSQL + `, ` + legacyDeleteCutSQL + raiseFloorSQL + ` RETURNING ` + historyBytesSQL
	legacyCutSQL   = `WITH oldest AS (SELECT revision, sum(size) OVER (ORDER BY revision) - size AS before FROM (
  SELECT revision, size FROM changes WHERE revision > (SELECT floor FROM meta) AND revision <= $2 ORDER BY revision LIMIT $1) AS c),
` + cutToSQL + `, ` + legacyDeleteCutSQL + raiseFloorSQL + ` RETURNING cut.floor, ` + historyBytesSQL

	pruneToSQL  = `cut AS (SELECT $1::bigint AS floor)`
	cutToSQL    = `cut AS (SELECT coalesce(max(revision), 0) AS floor FROM oldest WHERE before < $3)`
	cutFloorSQL = `(SELECT floor FROM cut)`

	// deleteCutSQL collects the changes to delete in an array, so that each is looked up in the index.
	deleteCutSQL = `gone AS (DELETE FROM changes WHERE revision = ANY (ARRAY(` + freedHead + cutFloorSQL + freedMiddle + cutFloorSQL +
		freedLast + cutFloorSQL + freedAll + cutFloorSQL + freedEnd + `)) RETURNING size),
freed AS (SELECT coalesce(sum(size), 0)::bigint AS bytes FROM gone)
`
	// legacyDeleteCutSQL does not count changes below the floor, which servers of schema version 1 leave there when the
	// counter jumps.
	legacyDeleteCutSQL = `gone AS (DELETE FROM changes WHERE revision <= ` + cutFloorSQL + ` RETURNING revision, size),
freed AS (SELECT coalesce(sum(g.size), 0)::bigint AS bytes FROM gone g JOIN meta b ON g.revision > b.floor)
`
	raiseFloorSQL = `UPDATE meta m SET floor = greatest(m.floor, cut.floor), freed = m.freed + freed.bytes,
history_bytes = CASE WHEN m.revision <= cut.floor THEN 0 ELSE greatest(m.history_bytes - freed.bytes, 0) END FROM freed, cut`
)

// cutSQL returns the statement that prunes in the transaction of a batch.
func (t *postgresTransaction) cutSQL() string {
	if t.legacy {
		return legacyCutSQL
	}
	return cutSQL
}

// prune raises the floor and deletes changes, some of which another server may have deleted. Like a batch that prunes,
// it takes the lock of the counter before it locks rows: otherwise the two could wait for each other.
func (p *postgresDriver) prune(floor int64) (left int64, err error) {
	tx, _, err := p.tryBegin(floor, 1)
	if err != nil {
		return 0, hung(context.Background(), err)
	}
	text := pruneSQL
	if tx.legacy {
		text = legacyPruneSQL
	}
	s := &pgx.Batch{}
	s.Queue(text, floor).QueryRow(func(row pgx.Row) error { return row.Scan(&left) })
	err = tx.finish(s, nil)
	return left, err
}
