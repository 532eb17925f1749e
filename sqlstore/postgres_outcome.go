package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowlock/rowlock/resources"
)

// Codes of https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	invalidParameterValue = "22023"
	lockNotAvailable      = "55P03"
	diskFull              = "53100"
	uniqueViolation       = "23505"
	readOnlyTransaction   = "25006" // of a primary that is being demoted
	idleInTransaction     = "25P03" // the database ended a transaction that did not go on
)

// outcome is what became of a transaction.
type outcome string

// What pg_xact_status says, and what it cannot know. Only these two are final.
const (
	outcomeCommitted outcome = "committed"
	outcomeAborted   outcome = "aborted"
	outcomeUnknown   outcome = "unknown"
)

// lookUp finds out what became of a transaction whose COMMIT was sent and not answered; b is what it wrote into the log.
func (t *postgresTransaction) lookUp(b *batch, cause error) error {
	deadline := time.Now().Add(t.driver.limits.lookUp)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		was, err := t.outcome(b)
		switch {
		case err == nil && was == outcomeCommitted:
			return nil
		case err == nil && was == outcomeAborted:
			return hung(context.Background(), cause)
		case err == nil || time.Now().After(deadline):
			return fmt.Errorf("%w: %w", resources.ErrUnknownOutcome, errors.Join(cause, err))
		}
		time.Sleep(pause)
	}
}

// outcome asks the database once. It takes the lock of the counter, which the transaction holds as long as it is not
// over; then its state is final.
//
// The number of a transaction is not enough to know it by. It means something in the database that has given it alone:
// after a failover to one that lost it, it may be another's. And a crash forgets the numbers that had not reached the
// disk, and gives them again: "committed" may then be said of the next batch, of another server. So the log has to have
// what was written, too. A transaction that committed never shares its number, so "aborted" is always true.
func (t *postgresTransaction) outcome(b *batch) (outcome, error) {
	tx, _, err := t.driver.tryBegin(0, 1)
	if err != nil {
		return "", err
	}
	was, err := t.outcomeIn(tx, b)
	if err == nil && was == outcomeCommitted {
		return tx.confirm()
	}
	tx.rollback()
	return was, err
}

// confirm commits a change of nothing in place of one that was committed before, but not confirmed: where a standby has
// to have what is acknowledged, it has that one when it has this one.
func (t *postgresTransaction) confirm() (outcome, error) {
	s := &pgx.Batch{}
	s.Queue(touchSQL)
	committed, err := t.send(s)
	switch {
	case committed:
		return outcomeCommitted, nil
	case err == nil:
		return "", errors.New("the transaction was rolled back")
	}
	return "", err
}

// outcomeIn asks in a transaction that holds the counter.
func (t *postgresTransaction) outcomeIn(tx *postgresTransaction, b *batch) (outcome, error) {
	if tx.origin != t.origin {
		return outcomeUnknown, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.driver.limits.step)
	defer cancel()
	var status *string
	err := tx.conn.QueryRow(ctx, "SELECT pg_xact_status($1::text::xid8)", t.xid).Scan(&status)
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && pgErr.Code == invalidParameterValue:
		return outcomeAborted, nil // the number was not given yet, or not again
	case err != nil:
		return "", err
	case status == nil: // forgotten
		return outcomeUnknown, nil
	case *status == "in progress":
		return outcomeAborted, nil // another server's now: the transaction in question would hold the counter
	case outcome(*status) != outcomeCommitted || b == nil:
		return outcome(*status), nil
	}
	return tx.recorded(ctx, b)
}

const recordedSQL = `SELECT meta.floor >= $1, (SELECT data FROM changes
WHERE revision = $1 AND at = $2 AND op = $3 AND resource = $4 AND namespace = $5 AND name = $6) FROM meta`

// recorded tells by the last change of a batch whether the log has it.
func (t *postgresTransaction) recorded(ctx context.Context, b *batch) (outcome, error) {
	last := &b.changes[len(b.changes)-1]
	row := newChangeRow(last, b.at)
	var pruned bool
	var data *string
	if err := t.conn.QueryRow(ctx, recordedSQL, row.revision, row.at, row.op, row.resource, row.namespace, row.name).
		Scan(&pruned, &data); err != nil {
		return "", err
	}
	found := data != nil && *data == row.data
	if !found && data != nil && (isSealed(*data) || isSealed(row.data)) { // it may have been sealed anew since
		plain, _, _, err := t.driver.sealer.open(ctx, last.event.Object.Key, sealed{data: *data})
		if err != nil {
			return outcomeUnknown, nil
		}
		found = text(plain) == text(last.event.Object.Stored())
	}
	switch {
	case found:
		return outcomeCommitted, nil
	case pruned:
		return outcomeUnknown, nil
	}
	return outcomeAborted, nil
}
