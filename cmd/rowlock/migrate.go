package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/sqlstore"
)

// databaseOptions name a database in a command that has several.
type databaseOptions struct {
	name              string // the name of the flag
	url, file, schema string
}

func (o *databaseOptions) addFlags(flags *pflag.FlagSet, what string) {
	flags.StringVar(&o.url, o.name, "", "`URL` of the database "+what+": sqlite:// and the path of a file, or postgres://user@host/database")
	flags.Lookup(o.name).Annotations = map[string][]string{classified: {"true"}} // it may contain a password
	flags.StringVar(&o.file, o.name+"-file", "", "`file` with that URL, because other users of the machine can see the command line; read once")
	flags.StringVar(&o.schema, o.name+"-schema", "", "`name` of its Postgres schema (default: the first schema of the search path)")
}

// isNamed reports whether a database is given.
func (o *databaseOptions) isNamed() bool { return o.url != "" || o.file != "" }

// complete determines the URL. No error contains it.
func (o *databaseOptions) complete() (sqlstore.Options, error) {
	switch {
	case (o.url == "") == (o.file == ""):
		return sqlstore.Options{}, usagef("one of --%s and --%s-file is needed", o.name, o.name)
	case o.file != "":
		text, err := os.ReadFile(o.file)
		if err != nil {
			return sqlstore.Options{}, fmt.Errorf("--%s-file: %w", o.name, err)
		}
		o.url = strings.TrimSpace(string(text))
	}
	err := sqlstore.CheckURL(o.url)
	if err != nil && o.name == "from" && !strings.HasPrefix(o.url, "postgres") && !strings.HasPrefix(o.url, "sqlite") {
		err = fmt.Errorf("%w; 'rowlock import' reads an etcd, a kine, and the files of both", err)
	}
	if err := errors.Join(err, sqlstore.CheckSchema(o.url, o.schema)); err != nil {
		return sqlstore.Options{}, usagef("--%s: %w", o.name, err)
	}
	return sqlstore.Options{URL: o.url, Schema: o.schema}, nil
}

// migrateOptions say what is migrated, and where.
type migrateOptions struct {
	from, to       databaseOptions
	follow, dryRun bool
	hold           time.Duration
}

// followEvery is how often the source is checked for changes.
const followEvery = time.Second

func newMigrateCommand() *cobra.Command {
	o := &migrateOptions{from: databaseOptions{name: "from"}, to: databaseOptions{name: "to"}}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move a store to another database while servers run",
		Long: "Copies all objects into an empty database of either kind, with their uids, times and resourceVersions, while servers keep writing\n" +
			"to the source. Then comes the switch: writes wait for less than a second until the last ones are copied, and the source\n" +
			"refuses further writes (503). Then start the servers on the target, with their data directory.\n\n" +
			"The command can be interrupted at any time and continues when it is run again. Until the switch, the source stays in use\n" +
			"unchanged. With --follow, it copies, and keeps copying new writes, until it is interrupted; run it without --follow for the switch.\n" +
			"--dry-run reports what would be copied, and whether the move is possible.\n\n" +
			"The object history (--object-history) is not copied: the target begins a new one.",
		Example: "  rowlock migrate --from sqlite:///var/lib/rowlock/rowlock.db --to postgres://rowlock@db/rowlock\n" +
			"  rowlock migrate --from-file ./url --from-schema team_a --to sqlite:///var/lib/rowlock/rowlock.db --follow",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := o.from.complete()
			if err != nil {
				return err
			}
			to, err := o.to.complete()
			if err != nil {
				return err
			}
			switch {
			case o.hold <= 0:
				return usagef("--hold must be positive")
			case o.dryRun && o.follow:
				return usagef("--dry-run and --follow exclude each other")
			case o.dryRun:
				return dryMove(cmd.Context(), from, to, cmd.OutOrStdout())
			}
			return o.run(cmd.Context(), from, to, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.from.addFlags(flags, "that the store is in")
	o.to.addFlags(flags, "that it moves to, which is empty, or was begun to be filled")
	flags.BoolVar(&o.dryRun, "dry-run", false, "report what would be copied, write nothing, and fail if the move would be refused")
	flags.BoolVar(&o.follow, "follow", false, "copy, then follow the source until the command is interrupted, without the switch")
	flags.DurationVar(&o.hold, "hold", sqlstore.DefaultHold, "longest time that writes wait for the switch; if it is too short, the switch is tried again")
	return cmd
}

// dryMove prints what would be copied, and checks whether the databases allow it.
func dryMove(ctx context.Context, from, to sqlstore.Options, out io.Writer) error {
	plan, err := sqlstore.CheckMove(ctx, from, to)
	if errors.Is(err, sqlstore.ErrAlreadyMoved) {
		fmt.Fprintln(out, "The store has moved there already.")
		return nil
	}
	if plan.Revision > 0 {
		fmt.Fprintf(out, "The source is at revision %d, and has\n", plan.Revision)
		printObjects(out, plan.Objects)
	}
	switch {
	case plan.Seen > 0:
		fmt.Fprintf(out, "The target has the state of revision %d: a run goes on from there.\n", plan.Seen)
	case plan.Begun:
		fmt.Fprintf(out, "The target was begun to be filled, and has %s: a run goes on from there.\n", counted(plan.Rows, "row"))
	}
	if plan.History {
		fmt.Fprintln(out, "The object history (--object-history) would stay in the source: the target would begin a new one.")
	}
	return err
}

func (o *migrateOptions) run(ctx context.Context, from, to sqlstore.Options, out io.Writer) (err error) {
	move, err := sqlstore.OpenMove(ctx, from, to)
	if errors.Is(err, sqlstore.ErrAlreadyMoved) {
		fmt.Fprintln(out, "The store has moved there already.")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, move.Close()) }()
	if move.Seen() > 0 {
		fmt.Fprintf(out, "The target has the state of revision %d.\n", move.Seen())
	}
	tell := (&moveTeller{out: out}).tell
	if o.follow {
		if err := move.Follow(ctx, followEvery, tell); err != nil {
			return err
		}
		fmt.Fprintf(out, "The target has the state of revision %d. Without --follow, the next run goes on from there, and switches.\n", move.Seen())
		return nil
	}
	moved, err := move.Switch(ctx, o.hold, tell)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The store has moved, at revision %d; writes waited for %d ms. Stop the servers of the source, which refuse writes now, and start "+
		"servers on the target, with the data directory that they have: it has the keys and certificates.\n", moved.Revision, moved.Held.Milliseconds())
	if move.LeavesHistory() {
		fmt.Fprintln(out, "The object history (--object-history) stays in the source: the target begins a new one.")
	}
	return nil
}

// moveTeller reports the progress of a copy: when a table is done, and after every tellEach rows.
type moveTeller struct {
	out  io.Writer
	told sqlstore.MoveProgress
}

// tellEach is the number of rows between two reports.
const tellEach = 20000

func (m *moveTeller) tell(p sqlstore.MoveProgress) {
	if p.Table != m.told.Table || p.Revision != m.told.Revision {
		m.told = sqlstore.MoveProgress{}
	}
	if p.Rows < p.Of && p.Rows-m.told.Rows < tellEach {
		return
	}
	m.told = p
	if p.Of > 0 {
		fmt.Fprintf(m.out, "revision %d, %s: %d of %s, %d copied\n", p.Revision, p.Table, p.Rows, counted(p.Of, "row"), p.Different)
	}
}
