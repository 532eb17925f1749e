package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/pki"
)

// keysOptions say which keys a command works on.
type keysOptions struct {
	adminOptions
	cmd *cobra.Command
}

func newKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Rotate the keys of ServiceAccount tokens and the certificate authorities",
		Long: "The first key signs ServiceAccount tokens, and tokens of all keys are accepted. To rotate the key while servers run: add a\n" +
			"key, wait until other verifiers of tokens have fetched it (an hour), make it sign, wait until the last token of the old\n" +
			"key has expired, and remove the old key. Servers follow at once. Servers that share a Postgres keep their keys there:\n" +
			"name it with --datastore.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		keysCommand("list", "List the keys of ServiceAccount tokens", nil, listKeys),
		keysCommand("add", "Add a new key of ServiceAccount tokens, and print its ID", nil, func(o *keysOptions, rows *resources.Rows, _ string) error {
			id, err := pki.NewKeyRing(o.dataDir, rows).Add(o.cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(o.cmd.OutOrStdout(), id)
			return err
		}),
		keysCommand("sign ID", "Make a key sign new ServiceAccount tokens", anyKey, func(o *keysOptions, rows *resources.Rows, id string) error {
			return pki.NewKeyRing(o.dataDir, rows).Sign(o.cmd.Context(), id)
		}),
		keysCommand("remove ID", "Remove a key of ServiceAccount tokens; its tokens are refused", anyKey, func(o *keysOptions, rows *resources.Rows, id string) error {
			return pki.NewKeyRing(o.dataDir, rows).Remove(o.cmd.Context(), id)
		}),
		keysCommand("replace ca|front-proxy-ca", "Replace a certificate authority; servers use the new one after a restart", pki.Authorities(), replaceAuthority),
	)
	return cmd
}

// anyKey is for commands that take the ID of a key.
var anyKey = []string{}

// keysCommand returns a command whose argument is one of arguments; any argument if arguments is empty, none if it is nil.
func keysCommand(use, short string, arguments []string, run func(*keysOptions, *resources.Rows, string) error) *cobra.Command {
	o := &keysOptions{}
	cmd := &cobra.Command{Use: use, Short: short, ValidArgs: arguments, Args: func(_ *cobra.Command, args []string) error {
		switch {
		case arguments == nil:
			return noArguments(nil, args)
		case len(args) != 1:
			return usagef("one argument is needed: %s", use)
		case len(arguments) > 0 && !slices.Contains(arguments, args[0]):
			return usagef("%q is none of %s", args[0], strings.Join(arguments, ", "))
		}
		return nil
	}}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		o.cmd = cmd
		if err := o.complete(); err != nil {
			return err
		}
		rows, done, err := o.rows(cmd.Context())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		return run(o, rows, strings.Join(args, ""))
	}
	cmd.Flags().SortFlags = false
	addDataDirFlag(cmd.Flags(), &o.dataDir)
	o.storage.addDatabaseFlags(cmd.Flags())
	o.encryption.addFileFlag(cmd.Flags())
	return cmd
}

// rows returns the rows of the database, if the keys are there; nil: they are in the data directory.
func (o *keysOptions) rows(ctx context.Context) (rows *resources.Rows, done func() error, err error) {
	done = func() error { return nil }
	given := o.storage.datastore != "" || o.storage.datastoreFile != ""
	if err := o.storage.completeDatabase(o.dataDir); err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(o.storage.datastore, "sqlite://") {
		if _, err := os.Stat(filepath.Join(o.dataDir, "rowlock.db")); errors.Is(err, fs.ErrNotExist) && !given {
			return nil, nil, fmt.Errorf("there is no database in %s: of servers on a Postgres, the keys are there; name it with --datastore", o.dataDir)
		}
		return nil, done, nil
	}
	store, err := o.openDatabase(ctx, o.cmd.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	return resources.NewRows(store), store.Close, nil
}

func listKeys(o *keysOptions, rows *resources.Rows, _ string) error {
	keys, err := pki.NewKeyRing(o.dataDir, rows).List(o.cmd.Context())
	if err != nil {
		return err
	}
	for i, k := range keys {
		what := "verifies"
		if i == 0 {
			what = "signs"
		} else if !k.Private {
			what = "verifies, and cannot sign"
		}
		fmt.Fprintf(o.cmd.OutOrStdout(), "%s   %s\n", k.ID, what)
	}
	return nil
}

func replaceAuthority(o *keysOptions, rows *resources.Rows, name string) error {
	previous, err := pki.ReplaceAuthority(o.cmd.Context(), o.dataDir, name, rows, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.cmd.OutOrStdout(), "Start all servers again. The certificate of the old authority is in %s.\n", previous)
	return err
}
