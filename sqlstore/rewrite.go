package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rowlock/rowlock/resources"
)

// Rewritten is the progress of Rewrite.
type Rewritten struct {
	// Table is objects, changes or revisions.
	Table string
	// Rows is how many of its rows were read, Stale how many of them were rewritten, Unreadable how many cannot be
	// decrypted and were left as they are.
	Rows, Stale, Unreadable int64
	// Unread is the error of one of those.
	Unread error
}

// Rewrite encrypts rows again that are encrypted differently than they would be now, or are not encrypted although they
// should be: in objects, in the log, and then in the object history. It may be called while this and other servers
// work, and be repeated: it does not touch rows that are up to date, so a second call continues an interrupted one.
//
// An object keeps its revision: the encoding of its row is not a change, so there is no event. A row is replaced under
// the condition that it is still what was read, by the committer between batches. progress is called after each step,
// with the rows of a table so far.
//
// When it returns without an error, the files of a SQLite database have nothing left of the replaced rows. Postgres
// keeps old rows until they are vacuumed and their space is used again.
//
// Errors: resources.ErrUnavailable, resources.ErrClosed, the context's.
func (s *Store) Rewrite(ctx context.Context, progress func(Rewritten)) error {
	for _, r := range []*rewriting{{store: s, done: Rewritten{Table: "objects"}, step: (*rewriting).objects},
		{store: s, done: Rewritten{Table: "changes"}, step: (*rewriting).changes},
		{store: s, done: Rewritten{Table: "revisions"}, step: (*rewriting).revisions}} {
		for more := true; more; {
			statements, err := r.step(r, ctx)
			if err == nil && len(statements) > 0 {
				err = s.onCommitter(func() error { return s.db.rewrite(statements) })
			}
			if err != nil {
				return fmt.Errorf("rewrite %s: %w", r.done.Table, err)
			}
			more = r.more
			progress(r.done)
		}
	}
	if err := s.onCommitter(s.db.scrub); err != nil {
		return err
	}
	if err := s.recorder.recount(ctx); err != nil { // every row is rewritten: only a bound is less exact
		s.logger.Warn("the size of the object history was not counted again after it was rewritten; another run does that", "error", err)
	}
	return nil
}

// onCommitter runs f between batches. Errors: those of f; resources.ErrClosed.
func (s *Store) onCommitter(f func() error) error {
	ran, err := s.janitor.task(f)
	if err == nil && !ran {
		return resources.ErrClosed
	}
	return err
}

// rewriteStep is how many rows are read at a time, and rewritten in one transaction.
const rewriteStep = 64

// rewriting is a table that is being rewritten.
type rewriting struct {
	store *Store
	done  Rewritten
	step  func(*rewriting, context.Context) ([]boundStatement, error)
	more  bool

	key      resources.Key // of the last row read from objects
	revision int64         // of the last row read from changes or revisions
}

// boundStatement is a statement with its arguments.
type boundStatement struct {
	text string
	args []any
}

const (
	selectRewriteObjectsSQL = `SELECT resource, namespace, name, revision, fields, data FROM objects
WHERE (resource, namespace, name) > ($1, $2, $3) ORDER BY resource, namespace, name LIMIT $4`

	rewriteObjectSQL = `UPDATE objects SET fields = $1, data = $2
WHERE resource = $3 AND namespace = $4 AND name = $5 AND revision = $6 AND data = $7`

	selectRewriteChangesHead = `SELECT revision, resource, namespace, name, fields, data, prev_fields, prev_data, `
	selectRewriteChangesTail = ` FROM changes WHERE revision > $1 ORDER BY revision LIMIT $2`

	rewriteChangeHead = `UPDATE changes SET fields = $1, data = $2, prev_fields = $3, prev_data = $4 WHERE revision = $5 AND data = $6 AND `
	rewriteChangeTail = ` = $7`
)

// rowToRewrite is a row that was read.
type rowToRewrite struct {
	key       resources.Key
	revision  int64
	data      sealed
	prev      sealed // of changes
	hasPrev   bool
	together  string // of changes
	stale     bool
	unread    error
	statement boundStatement
}

// count adds a row to the progress.
func (r *rewriting) count(row *rowToRewrite) {
	r.done.Rows++
	if row.stale {
		r.done.Stale++
	}
	if row.unread != nil {
		r.done.Unreadable++
		r.done.Unread = row.unread
	}
}

// anew returns the new value of a row, and notes in the row whether it differs. A value that cannot be decrypted stays.
func (r *rewriting) anew(ctx context.Context, row *rowToRewrite, was sealed) (sealed, error) {
	data, f, stale, err := r.store.sealer.open(ctx, row.key, was)
	if ctx.Err() != nil {
		return was, ctx.Err()
	}
	if err != nil {
		row.unread = &resources.TransformError{Key: row.key, Err: err, Among: true}
		return was, nil
	}
	if !stale {
		return was, nil
	}
	row.stale = true
	return r.store.sealer.seal(ctx, row.key, data, f)
}

// objects reads a step of the table objects, and returns the statements that rewrite its rows.
func (r *rewriting) objects(ctx context.Context) (statements []boundStatement, err error) {
	var rows []rowToRewrite
	if err := r.store.db.each(ctx, func(scan func(...any) error) error {
		var row rowToRewrite
		rows = append(rows, row)
		last := &rows[len(rows)-1]
		return scan(&last.key.Resource, &last.key.Namespace, &last.key.Name, &last.revision, &last.data.fields, &last.data.data)
	}, selectRewriteObjectsSQL, r.key.Resource, r.key.Namespace, r.key.Name, rewriteStep); err != nil {
		return nil, unavailable(err)
	}
	r.more = len(rows) == rewriteStep
	for i := range rows {
		row := &rows[i]
		now, err := r.anew(ctx, row, row.data)
		if err != nil {
			return nil, err
		}
		r.count(row)
		r.key = row.key
		if row.stale {
			statements = append(statements, boundStatement{rewriteObjectSQL, []any{textOrNull(now.fields), now.data,
				row.key.Resource, row.key.Namespace, row.key.Name, row.revision, row.data.data}})
		}
	}
	return statements, nil
}

// changes is like objects, for the table changes. Servers that follow the log recognise the changes of one transaction
// by a common value of the rows (page.cut): if one row is rewritten, all rows of its transaction are, by one
// transaction.
func (r *rewriting) changes(ctx context.Context) (statements []boundStatement, err error) {
	rows, err := r.readChanges(ctx)
	for i := 0; i < len(rows) && err == nil; {
		end, stale := i, false
		for ; end < len(rows) && rows[end].together == rows[i].together && err == nil; end++ {
			err = r.anewChange(ctx, &rows[end])
			stale = stale || rows[end].stale
		}
		for ; i < end; i++ {
			r.count(&rows[i])
			r.revision = rows[i].revision
			if stale {
				statements = append(statements, rows[i].statement)
			}
		}
	}
	return statements, err
}

// readChanges reads whole transactions, at least one.
func (r *rewriting) readChanges(ctx context.Context) (rows []rowToRewrite, err error) {
	statement := selectRewriteChangesHead + r.store.db.rewritesTogether() + selectRewriteChangesTail
	for limit := rewriteStep; ; limit *= 2 {
		rows = nil
		if err := r.store.db.each(ctx, func(scan func(...any) error) error {
			var row rowToRewrite
			var prev sql.NullString
			err := scan(&row.revision, &row.key.Resource, &row.key.Namespace, &row.key.Name, &row.data.fields, &row.data.data,
				&row.prev.fields, &prev, &row.together)
			row.prev.data, row.hasPrev = prev.String, prev.Valid
			rows = append(rows, row)
			return err
		}, statement, r.revision, limit); err != nil {
			return nil, unavailable(err)
		}
		if r.more = len(rows) == limit; !r.more {
			return rows, nil
		}
		end := len(rows)
		for last := rows[end-1].together; end > 0 && rows[end-1].together == last; {
			end--
		}
		if end > 0 { // the rest of the last transaction may be missing
			return rows[:end], nil
		}
	}
}

// anewChange computes the statement that rewrites a change.
func (r *rewriting) anewChange(ctx context.Context, row *rowToRewrite) error {
	now, err := r.anew(ctx, row, row.data)
	if err != nil {
		return err
	}
	prev := row.prev
	if row.hasPrev {
		if prev, err = r.anew(ctx, row, row.prev); err != nil {
			return err
		}
	}
	prevData := sql.NullString{String: prev.data, Valid: row.hasPrev}
	row.statement = boundStatement{rewriteChangeHead + r.store.db.rewritesTogether() + rewriteChangeTail,
		[]any{textOrNull(now.fields), now.data, textOrNull(prev.fields), textOrNull(prevData), row.revision, row.data.data, row.together}}
	return nil
}
