package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources/views"
	"github.com/rowlock/rowlock/sqlstore"
)

func addViewsFlag(flags *pflag.FlagSet, keep *bool) {
	flags.BoolVar(keep, "sql-views", false,
		"keep a view of each resource in the database, for SQL clients (docs/sql.md); on Postgres they are in a schema of their own, which is "+
			"named after that of the tables, with _views. Without it, those that are there are removed. 'rowlock sql' needs none of them")
}

// keepViews has the database have the views of what is served, until ctx ends. Nothing of the server depends on them.
func (p *parts) keepViews(ctx context.Context) {
	if !p.options.views {
		if err := p.store.KeepViews(ctx, nil); err != nil && ctx.Err() == nil {
			p.logger.Warn("the views for SQL are not removed", "error", err)
		}
		return
	}
	refused := false
	k := views.Keeper{Registry: p.registry, Store: p.store, Logger: p.logger, Keep: func(ctx context.Context, wanted []views.View) error {
		err := p.store.KeepViews(ctx, wanted)
		if !errors.Is(err, sqlstore.ErrViewsRefused) {
			return err
		}
		if !refused {
			refused = true
			p.logger.Warn("there are no views for SQL in the database; see docs/sql.md", "error", err)
		}
		return nil
	}}
	k.Run(ctx)
}
