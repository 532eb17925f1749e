package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// ObjectColumns are the columns of the rows that Target.ObjectRow makes for the table objects.
var ObjectColumns = []string{"resource", "namespace", "name", "revision", "expires", "fields", "data"}

// ObjectRow returns the row of an object from outside a store, encrypted if Options.Transformers say so. lives is its
// lifetime from now on; 0 means for ever. Errors: resources.ErrRefused; *resources.TransformError.
func (t *Target) ObjectRow(ctx context.Context, key resources.Key, d resources.Draft, revision int64, lives time.Duration) ([]any, error) {
	if problems := key.Storable(); len(problems) > 0 {
		return nil, fmt.Errorf("%w: %w", resources.ErrRefused, problems.ToAggregate())
	}
	if resources.IsOwnRow(key.Resource) { // which would be a credential, or an authority
		return nil, resources.ErrRefused
	}
	row, err := t.options.sealer.sealObject(ctx, resources.NewObject(key, d, revision))
	if err != nil {
		return nil, err
	}
	values := []any{key.Resource, key.Namespace, key.Name, revision, nil, nil, row.data}
	if lives > 0 {
		values[4] = t.options.Clock.Now().Add(lives).UnixMilli()
	}
	if row.fields.Valid {
		values[5] = row.fields.String
	}
	return values, nil
}
