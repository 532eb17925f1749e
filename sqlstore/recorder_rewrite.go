package sqlstore

import (
	"context"
	"fmt"
)

const (
	selectRewriteRevisionsSQL = `SELECT revision, resource, namespace, name, fields, data FROM revisions
WHERE revision > $1 AND length(data) > 0 ORDER BY revision LIMIT $2`

	rewriteRevisionSQL = `UPDATE revisions SET fields = $1, data = $2, size = size + $3 WHERE revision = $4 AND data = $5`

	lockRecordingSQL    = `SELECT FROM recording` + forUpdate
	recountRecordingSQL = `UPDATE recording SET bytes = (SELECT coalesce(sum(size), 0) FROM revisions)`
)

// revisions is like objects, for the table of the object history.
func (r *rewriting) revisions(ctx context.Context) (statements []boundStatement, err error) {
	var rows []rowToRewrite
	if err := r.store.db.each(ctx, func(scan func(...any) error) error {
		var row rowToRewrite
		err := scan(&row.revision, &row.key.Resource, &row.key.Namespace, &row.key.Name, &row.data.fields, &row.data.data)
		rows = append(rows, row)
		return err
	}, selectRewriteRevisionsSQL, r.revision, rewriteStep); err != nil {
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
		r.revision = row.revision
		if row.stale {
			grown := int64(len(now.data) + len(now.fields.String) - len(row.data.data) - len(row.data.fields.String))
			statements = append(statements, boundStatement{rewriteRevisionSQL,
				[]any{textOrNull(now.fields), []byte(now.data), grown, row.revision, []byte(row.data.data)}})
		}
	}
	return statements, nil
}

// recount sets the size of the object history to that of its rows, since rewriting them changes their sizes. A step,
// which also writes it, is not running then, here or on another server.
func (r *recorder) recount(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.store.db.aside(ctx, r.store.onCommitter, func(ctx context.Context, c sqlConn, shared bool) (bool, error) {
		if !shared {
			return true, nil
		}
		if _, err := c.ExecContext(ctx, lockRecordingSQL); err != nil { // the next statement sees the step that this one waits for
			return false, unavailable(err)
		}
		return true, nil
	}, func(ctx context.Context, c sqlConn) error {
		_, err := c.ExecContext(ctx, recountRecordingSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("the size of the object history: %w", err)
	}
	return nil
}
