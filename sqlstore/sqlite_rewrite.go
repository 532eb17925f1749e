package sqlstore

import "context"

func (d *sqliteDriver) rewrite(statements []boundStatement) error {
	return d.transaction(func(ctx context.Context) error {
		for _, s := range statements {
			if _, err := d.writer.ExecContext(ctx, s.text, s.args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// rewritesTogether: nobody follows the log of a file.
func (d *sqliteDriver) rewritesTogether() string { return "CAST(revision AS TEXT)" }

// scrub makes the file anew of what is in the tables, since free pages, and free room on others, have what was there before; and it
// cuts the write-ahead log to nothing.
func (d *sqliteDriver) scrub() error {
	if _, err := d.writer.ExecContext(context.Background(), "VACUUM"); err != nil {
		return unavailable(err)
	}
	return d.checkpoint()
}
