package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/views"
	"github.com/rowlock/rowlock/sqlstore"
)

func addViewsFlag(flags *pflag.FlagSet, keep *bool) {
	flags.BoolVar(keep, "sql-views", false,
		"keep a view of each resource in the database for SQL clients (docs/sql.md); on Postgres, in a schema that is named after that of the tables "+
			"and ends with _views. Without this flag, existing views are removed. 'rowlock sql' does not need them")
}

// keepViews maintains the views of the served types in the database until ctx ends. The server itself does not depend on them.
func (p *parts) keepViews(ctx context.Context) {
	if !p.options.views {
		p.removeViews(ctx)
		return
	}
	refused := false
	k := views.Keeper{Registry: p.registry, Store: p.store, Logger: p.logger, Keep: func(ctx context.Context, wanted []views.View) (map[string]error, error) {
		left, err := p.store.KeepViews(ctx, wanted)
		if !errors.Is(err, sqlstore.ErrViewsRefused) {
			return left, err
		}
		if !refused {
			refused = true
			p.logger.Warn("the views for SQL could not be created; see docs/sql.md", "error", err)
		}
		return nil, nil
	}}
	k.Run(ctx)
}

// removeViews removes the views that earlier servers created, and retries until none is left.
func (p *parts) removeViews(ctx context.Context) {
	var told views.Left
	for {
		left, err := p.store.KeepViews(ctx, nil)
		if ctx.Err() != nil || errors.Is(err, resources.ErrClosed) {
			return
		}
		if err != nil {
			left = map[string]error{"all": err}
		}
		pause := told.Again(p.logger, left)
		if pause == 0 || errors.Is(err, sqlstore.ErrViewsRefused) {
			return
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}
