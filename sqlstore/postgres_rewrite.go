package sqlstore

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
)

func (p *postgresDriver) rewrite(statements []boundStatement) error {
	tx, _, err := p.tryBegin(math.MaxInt64, 1)
	if err != nil {
		return hung(context.Background(), err)
	}
	b := &pgx.Batch{}
	for _, s := range statements {
		b.Queue(s.text, s.args...)
	}
	return tx.finish(b, nil)
}

// rewritesTogether returns the transaction: see pageAfter.
func (p *postgresDriver) rewritesTogether() string { return "xmin::text" }

// scrub has nothing to do: autovacuum removes replaced rows. An administrator can do so at once with VACUUM FULL.
func (p *postgresDriver) scrub() error { return nil }
