package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/views"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/backup"
)

// sqlOptions are the flags of rowlock sql.
type sqlOptions struct {
	place      placeOptions
	encryption encryptionOptions
	backup     string
	output     string
	maxRows    int
	timeout    time.Duration
	list       bool
}

// statementMost is how many bytes of a statement are read from the standard input.
const statementMost = 1 << 20

func newSQLCommand() *cobra.Command {
	o := &sqlOptions{}
	cmd := &cobra.Command{
		Use:   "sql QUERY",
		Short: "Query the objects in SQL",
		Long: "Runs a read-only query (- reads it from the standard input) on the objects of a database, whether its server runs or not. Each resource\n" +
			"has a view of its name (pods, \"deployments.apps\"); all_objects, all_owners, all_changes and pod_images cover all resources.\n" +
			"docs/sql.md describes the views and has queries for common questions.\n\n" +
			"The SQL is SQLite's, also for a Postgres. The data of Secrets is not visible.",
		Example: "  rowlock sql 'SELECT node, count(*) FROM pods GROUP BY node'\n" +
			"  rowlock sql -o csv 'SELECT namespace, name, ready FROM \"deployments.apps\"'\n" +
			"  rowlock sql --views pods\n" +
			"  rowlock sql --backup /backup/today \"SELECT resource, count(*) FROM all_objects GROUP BY resource\"",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && !o.list {
				return usagef("one query is needed, and nothing else: put it into quotes")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return o.run(cmd, strings.Join(args, ""))
		},
	}
	addSections(cmd, []section{{"Query", flagSet(o.addFlags)}, {"Storage", flagSet(o.addStorageFlags)}})
	return cmd
}

func (o *sqlOptions) addFlags(flags *pflag.FlagSet) {
	flags.VarP(newChoice(&o.output, "table", "csv", "json"), "output", "o",
		"format of the rows: table (long values are cut), csv, or json (a list of objects)")
	flags.IntVar(&o.maxRows, "max-rows", 10_000, "most rows to return; the command reports when there are more")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Second, "time limit of the query")
	flags.BoolVar(&o.list, "views", false, "list the views, or the columns of the view that is named in place of the query")
}

func (o *sqlOptions) addStorageFlags(flags *pflag.FlagSet) {
	o.place.addFlags(flags)
	o.encryption.addFileFlag(flags)
	flags.StringVar(&o.backup, "backup", "", "backup `file` to query instead of the database; it is restored into a temporary directory, which needs the space")
}

func (o *sqlOptions) complete() error {
	switch {
	case o.maxRows < 1:
		return usagef("--max-rows must be at least 1")
	case o.timeout <= 0:
		return usagef("--timeout must be positive")
	}
	return o.place.complete()
}

func (o *sqlOptions) run(cmd *cobra.Command, query string) (err error) {
	if !sqlstore.BoundQueries() { // this process has opened a database before, as tests do
		fmt.Fprintln(cmd.ErrOrStderr(), "the memory of the query is not bounded")
	}
	store := o.place.store()
	if o.backup != "" {
		remove, err := o.restore(cmd, &store)
		if err != nil {
			return err
		}
		defer remove()
	}
	if query == "-" {
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), statementMost))
		if err != nil {
			return err
		}
		query = string(text)
	}
	e, err := o.encryption.open(cmd.Context())
	if err != nil {
		return err
	}
	defer e.close()
	store.Transformers = e.transformers
	return o.ask(cmd, store, query)
}

// restore restores the backup into a temporary store.
func (o *sqlOptions) restore(cmd *cobra.Command, store *sqlstore.Options) (remove func(), err error) {
	f, err := openBackup(o.backup, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, err := makeTemporary("rowlock-sql-*")
	if err != nil {
		return nil, err
	}
	remove = func() { os.RemoveAll(dir) } //nolint:errcheck // of a temporary directory
	*store = sqlstore.Options{URL: "sqlite://" + filepath.Join(dir, "rowlock.db")}
	if _, err = backup.Restore(cmd.Context(), f, backup.Destination{Store: *store, DataDir: dir, Passphrase: o.place.passphrase}); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// ask answers the query, or lists views. It releases the database after the timeout at the latest, however slow the reader of the output is.
func (o *sqlOptions) ask(cmd *cobra.Command, store sqlstore.Options, query string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	spool := newSpool(ctx, cmd.OutOrStdout())
	out := newRowWriter(o.output, spool)
	if o.list && o.output == "table" {
		out = nameRows{spool}
	}
	var more bool
	var err error
	if !endsWith(ctx, func() { more, err = o.read(ctx, cmd, store, query, out) }) {
		return o.whyEnded(ctx, cmd, ctx.Err()) // the query keeps its resources, and ends with the process
	}
	if err != nil {
		err = o.whyEnded(ctx, cmd, err)
	} else {
		spool.unhurried(cmd.Context())
		err = out.end()
	}
	if err := errors.Join(err, spool.drain(cmd.Context())); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(cmd.ErrOrStderr(), "There are more rows than the %d of --max-rows.\n", o.maxRows)
	}
	return nil
}

// whyEnded adds the timeout to an error that it caused.
func (o *sqlOptions) whyEnded(ctx context.Context, cmd *cobra.Command, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && cmd.Context().Err() == nil {
		return fmt.Errorf("the query, with who reads what it writes, took longer than %v, and was ended: narrow it down, have it write into a file, or raise --timeout", o.timeout)
	}
	return err
}

// endingTime is how long a function may take to end after its context has ended.
const endingTime = 3 * time.Second

// endsWith runs f, and returns when f has ended, or when it has not ended some time after ctx. Then it returns false, and f is abandoned: SQLite
// checks for cancellation only between the steps of a query, and one step, such as searching a long text in another, can take minutes.
func endsWith(ctx context.Context, f func()) (ended bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	late := time.NewTimer(endingTime)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// read is the part of ask that holds a snapshot of the database.
func (o *sqlOptions) read(ctx context.Context, cmd *cobra.Command, store sqlstore.Options, query string, out rowWriter) (more bool, err error) {
	source, err := sqlstore.OpenSource(ctx, store)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	there, err := storedViews(ctx, source)
	if err != nil {
		return false, err
	}
	if o.list {
		return false, listViews(ctx, source, there, query, out)
	}
	refused := func(view string, err error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "There is no view %q: %v\n", view, err)
	}
	more, err = source.Query(ctx, sqlstore.QueryOptions{Views: there, Text: query, MaxRows: o.maxRows, Refused: refused, Columns: out.columns, Row: out.row})
	return more, explained(err)
}

// explained adds help to a common error.
func explained(err error) error {
	if err != nil && strings.Contains(err.Error(), "no such table") {
		return fmt.Errorf("%w: 'rowlock sql --views' lists the views; a name with a dot stands in double quotes, as in \"deployments.apps\"", err)
	}
	return err
}

// storedViews returns the views of the built-in types, in all versions, whether or not servers serve them, and of the
// custom resources that are defined in the database.
func storedViews(ctx context.Context, source *sqlstore.Source) ([]views.View, error) {
	all, err := builtin.ParseRuntimeConfig(map[string]string{"api/all": "true"})
	if err != nil {
		return nil, err
	}
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Parts{APIs: all}.Groups())
	there := views.OfCatalog(registry.Catalog())
	err = source.Objects(ctx, custom.Resource, func(r sqlstore.Row) error {
		if r.IsEncrypted() {
			plain, err := source.Decrypt(ctx, r)
			if err != nil {
				return ctx.Err() // what it defines is not known
			}
			r = plain
		}
		if v, ok := views.OfDefinition([]byte(r.Data)); ok {
			there = append(there, v)
		}
		return ctx.Err()
	})
	return views.Together(there), err
}

// listViews lists the names of the views, or the columns of one.
func listViews(ctx context.Context, source *sqlstore.Source, there []views.View, name string, out rowWriter) error {
	list := func(title string, names []string) error {
		err := out.columns([]string{title})
		for _, n := range names {
			err = errors.Join(err, out.row([]any{n}))
		}
		return err
	}
	if name == "" {
		names := slices.Clone(sqlstore.SharedViews())
		for _, v := range there {
			names = append(names, v.Name)
		}
		slices.Sort(names) // those of built-in types are not sorted
		return list("view", names)
	}
	columns := func(names []string) error { return list("column", names) }
	quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	_, err := source.Query(ctx, sqlstore.QueryOptions{Views: there, Text: "SELECT * FROM " + quoted, Columns: columns, Row: func([]any) error { return nil }})
	return explained(err)
}
