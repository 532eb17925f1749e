package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/sqlstore"
)

// rewriteOptions are the flags of rowlock rewrite: the flags of serve that say what is rewritten, and how.
type rewriteOptions struct {
	dataDir    string
	storage    storageOptions
	encryption encryptionOptions
	log        logOptions
}

func newRewriteCommand() *cobra.Command {
	o := &rewriteOptions{}
	cmd := &cobra.Command{
		Use:   "rewrite [flags]",
		Short: "Encrypt the rows of the database with the present keys",
		Long: "Encrypts all objects and their history in place, at their revisions, where they are not encrypted yet, or with another key\n" +
			"than --encryption-provider-config now says. On Postgres, servers keep running and need all keys in use; a server on\n" +
			"SQLite has to be stopped first. The command can be interrupted, and continues when it is run again.",
		Example: "  rowlock rewrite --encryption-provider-config encryption.yaml",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return o.run(cmd.Context(), o.log.logger(cmd.ErrOrStderr()), cmd.OutOrStdout())
		},
	}
	addSections(cmd, []section{{"Storage", flagSet(o.addFlags)}, {"Logging", flagSet(o.log.addFlags)}})
	return cmd
}

func (o *rewriteOptions) addFlags(flags *pflag.FlagSet) {
	addDataDirFlag(flags, &o.dataDir)
	o.storage.addDatabaseFlags(flags)
	o.encryption.addFileFlag(flags)
}

func (o *rewriteOptions) complete() (err error) {
	if o.dataDir, err = absoluteDataDir(o.dataDir); err != nil {
		return err
	}
	if o.encryption.file == "" {
		return usagef("--encryption-provider-config says by which keys: to have nothing encrypted, let its first provider be identity")
	}
	return o.storage.completeDatabase(o.dataDir)
}

// run rewrites all objects. It reports its progress with a line for each table and for every ten thousand of its rows.
func (o *rewriteOptions) run(ctx context.Context, logger *slog.Logger, stdout io.Writer) (err error) {
	// The servers decide how much history is kept.
	options := sqlstore.Options{URL: o.storage.datastore, Schema: o.storage.schema, AwaitTimeout: databaseAwaitTimeout,
		HistoryAge: math.MaxInt64, HistorySize: math.MaxInt64, Logger: logger}
	if err := o.storage.checkThere(ctx, o.dataDir, options); err != nil {
		return err
	}
	e, err := o.encryption.open(ctx)
	if err != nil {
		return err
	}
	defer e.close()
	options.Transformers = e.transformers
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	done, told := map[string]sqlstore.Rewritten{}, int64(0)
	tell := func(r sqlstore.Rewritten) {
		fmt.Fprintf(stdout, "%s: %d of %s encrypted anew\n", r.Table, r.Stale, counted(r.Rows, "row"))
	}
	if err := store.Rewrite(ctx, func(r sqlstore.Rewritten) {
		if done[r.Table] = r; r.Rows/10000 > told/10000 {
			tell(r)
		}
		told = r.Rows
	}); err != nil {
		return err
	}
	tell(done["objects"])
	tell(done["changes"])
	for _, r := range done {
		if r.Unreadable > 0 {
			err = errors.Join(err, fmt.Errorf("%s cannot be decrypted: left unchanged: %w",
				counted(r.Unreadable, "row of "+r.Table, "rows of "+r.Table), r.Unread))
		}
	}
	return err
}
