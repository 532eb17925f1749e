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

// databaseOptions name a database of a command that has more than one.
type databaseOptions struct {
	name              string // of the flag
	url, file, schema string
}

func (o *databaseOptions) addFlags(flags *pflag.FlagSet, what string) {
	flags.StringVar(&o.url, o.name, "", "`URL` of the database "+what+": sqlite:// and the path of a file, or postgres://user@host/database")
	flags.Lookup(o.name).Annotations = map[string][]string{classified: {"true"}} // it may hold a password
	flags.StringVar(&o.file, o.name+"-file", "", "`file` that holds that URL, for others on the machine see the command line; read once")
	flags.StringVar(&o.schema, o.name+"-schema", "", "`name` of the Postgres schema there (default the first one of the search path)")
}

// isNamed reports whether a database is named at all.
func (o *databaseOptions) isNamed() bool { return o.url != "" || o.file != "" }

// complete finds the URL, which no error repeats.
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

// migrateOptions say what moves where.
type migrateOptions struct {
	from, to       databaseOptions
	follow, dryRun bool
	hold           time.Duration
}

// followEvery is how often it is looked what is new in the source.
const followEvery = time.Second

func newMigrateCommand() *cobra.Command {
	o := &migrateOptions{from: databaseOptions{name: "from"}, to: databaseOptions{name: "to"}}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move a store into another database, while servers run",
		Long: "Copies all objects into an empty database, of the other kind or of the same, with their uids, times and resourceVersions, while\n" +
			"servers go on writing to the source. Then it switches: writes wait, for less than a second, until the last ones are copied,\n" +
			"and from then on the source refuses them (503). Start servers on the target, with the data directory that they have.\n\n" +
			"It can be interrupted at any moment: run again, it goes on. Until the switch, the source is what it was. With --follow it\n" +
			"copies, and what is written meanwhile, until it is interrupted: then run it without, for the switch. --dry-run says what would\n" +
			"be copied, and whether it could be.\n\n" +
			"The object history (--object-history) stays in the source: the target begins a new one.",
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
	flags.BoolVar(&o.dryRun, "dry-run", false, "say what would be copied, and write nothing; it ends with the error with which the move would be refused")
	flags.BoolVar(&o.follow, "follow", false, "copy, and follow the source until it is interrupted, and do not switch")
	flags.DurationVar(&o.hold, "hold", sqlstore.DefaultHold, "how long writes may be kept waiting for the switch, at most; where that is not enough, it is tried again")
	return cmd
}

// dryMove says what would be copied, and whether the databases are such that it could be.
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
	if plan.Begun {
		fmt.Fprintln(out, "The target was begun to be filled: a run from the same source goes on from there.")
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

// moveTeller tells how far a copy has come: when it is done with a table, and each so many rows.
type moveTeller struct {
	out  io.Writer
	told sqlstore.MoveProgress
}

// tellEach is that number.
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
