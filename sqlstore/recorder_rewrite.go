package sqlstore

import "context"

const (
	selectRewriteRevisionsSQL = `SELECT revision, resource, namespace, name, fields, data FROM revisions
WHERE revision > $1 AND length(data) > 0 ORDER BY revision LIMIT $2`

	rewriteRevisionSQL = `UPDATE revisions SET fields = $1, data = $2 WHERE revision = $3 AND data = $4`
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
			statements = append(statements, boundStatement{rewriteRevisionSQL, []any{textOrNull(now.fields), []byte(now.data), row.revision, []byte(row.data.data)}})
		}
	}
	return statements, nil
}
