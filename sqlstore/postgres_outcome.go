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
	internalError         = "XX000"
	uniqueViolation       = "23505"
	readOnlyTransaction   = "25006" // of a primary that is being demoted
	idleInTransaction     = "25P03" // the database ended a transaction that did not go on
	transactionTimeout    = "25P04" // or one that took long; from Postgres 17 on
)

// outcome is the result of a transaction.
type outcome string

// The answers of pg_xact_status, and unknown. Only committed and aborted are final.
const (
	outcomeCommitted outcome = "committed"
	outcomeAborted   outcome = "aborted"
	outcomeUnknown   outcome = "unknown"
)

// lookUp finds out the outcome of a transaction whose COMMIT was sent and not answered; b is what it wrote into the
// log.
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

// outcome queries the database once. It takes the lock of the counter, which the transaction holds until it is over;
// then its state is final.
//
// The transaction's number alone does not identify it. It is valid only in the database that assigned it: after a
// failover to a database that lost the transaction, it may belong to another one. And a crash forgets the numbers that
// had not reached the disk, and assigns them again: "committed" may then refer to the next batch, of another server. So
// the log must have the batch as well. A committed transaction never shares its number, so "aborted" is always true.
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

// confirm makes a commit without changes after a commit that was not confirmed: where a standby must have acknowledged
// commits, it has the earlier one when it has this one.
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

// outcomeIn determines the outcome in a transaction that holds the lock of the counter.
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
		return outcomeAborted, nil // the number was not assigned yet, or was lost in a crash and not assigned again
	case err != nil:
		return "", err
	case status == nil: // the database has forgotten the transaction
		return outcomeUnknown, nil
	case *status == "in progress":
		return outcomeAborted, nil // the number belongs to another server's transaction now: the original one would hold the counter
	case outcome(*status) != outcomeCommitted || b == nil:
		return outcome(*status), nil
	}
	return tx.recorded(ctx, b)
}

const recordedSQL = `SELECT meta.floor >= $1, (SELECT data FROM changes
WHERE revision = $1 AND at = $2 AND op = $3 AND resource = $4 AND namespace = $5 AND name = $6) FROM meta`

// recorded reports whether the log has the last change of a batch.
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
	if !found && data != nil && (isSealed(*data) || isSealed(row.data)) { // the row may have been encrypted again since
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
