package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

const (
	// legacySQL returns whether a server of schema version 1 lives: one that holds its lock, and is not in the
	// table.
	legacySQL = `SELECT EXISTS (SELECT 1 FROM (` + legacyLocksSQL + `) AS held WHERE NOT EXISTS (SELECT 1 FROM servers s WHERE s.id = held.id))`

	// unseenBefore is how often in a row no such server must be seen before it counts as gone: its connection may have
	// broken.
	unseenBefore = 2

	totalSQL     = `UPDATE changes SET total = $2 WHERE revision = $1`
	logCountsSQL = `UPDATE meta SET revision = NULL, freed = 0`
	// forgetSQL deletes the rows that servers of schema version 1 left when the counter jumped. They are neither counted nor
	// needed: every update still has the object before it.
	forgetSQL = `DELETE FROM changes WHERE revision <= (SELECT floor FROM meta)`
)

// modernize makes the log the counter when no server of schema version 1 lives. If one lives nevertheless, hidden
// by a pooler, it finds no counter and refuses everything that needs one. No revision is assigned twice, because both
// releases use the row of meta as the lock, and that row says which counter is valid. It runs on the committer's
// goroutine.
func (p *postgresDriver) modernize() {
	if err := p.tryModernize(); err != nil {
		p.logger.Warn("the counter could not be moved from the table meta to the log, trying again", "error", err)
	}
}

func (p *postgresDriver) tryModernize() error {
	tx, page, err := p.tryBegin(0, 1)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.limits.step)
	defer cancel()
	var there bool
	if page.legacy {
		err = tx.conn.QueryRow(ctx, legacySQL, p.locks).Scan(&there)
	}
	if p.unseen++; there || err != nil {
		p.unseen = 0
	}
	if !page.legacy || err != nil || p.unseen < unseenBefore {
		tx.rollback()
		return err
	}
	s := &pgx.Batch{}
	s.Queue(totalSQL, page.revision, page.historyBytes)
	s.Queue(logCountsSQL)
	s.Queue(forgetSQL)
	return tx.finish(s, nil)
}
