package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/backup"
)

// placeOptions say which store a command other than serve works on, and how its backups are encrypted.
type placeOptions struct {
	dataDir        string
	storage        storageOptions
	passphraseFile string
	passphrase     []byte
}

func (o *placeOptions) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	addDataDirFlag(flags, &o.dataDir)
	o.storage.addDatabaseFlags(flags)
	addPassphraseFlag(flags, &o.passphraseFile, "passphrase-file", "read once")
}

func (o *placeOptions) complete() (err error) {
	if o.dataDir, err = absoluteDataDir(o.dataDir); err != nil {
		return err
	}
	if err := o.storage.completeDatabase(o.dataDir); err != nil {
		return err
	}
	if o.passphrase, err = readPassphrase(o.passphraseFile); err != nil {
		return fmt.Errorf("--passphrase-file: %w", err)
	}
	return nil
}

// store returns the options of the database.
func (o *placeOptions) store() sqlstore.Options {
	return sqlstore.Options{URL: o.storage.datastore, Schema: o.storage.schema}
}

// oneArgument refuses a command line without exactly one argument. An empty argument comes from a variable that is not set.
func oneArgument(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usagef("%s is needed, and nothing else", what)
		}
		return nil
	}
}

func newBackupCommand() *cobra.Command {
	o := &placeOptions{}
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a backup, whether the server runs or not",
		Long: "Writes a consistent state of the database, and the keys and certificates of the data directory, into a file (- for the\n" +
			"standard output). It reads the database itself, so it needs access to the SQLite file or to the Postgres.\n\n" +
			"A backup contains all Secrets and the keys of the cluster. --passphrase-file encrypts it.",
		Example: "  rowlock backup /backup/today\n" +
			"  rowlock backup --passphrase-file ~/.rowlock-passphrase - | ssh elsewhere 'cat > today'\n" +
			"  rowlock backup --datastore-file ./url --schema team_a /backup/team_a",
		Args: oneArgument("the name of a file, or -,"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return makeBackup(cmd, o, args[0])
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func makeBackup(cmd *cobra.Command, o *placeOptions, file string) (err error) {
	origin := backupOrigin(o.dataDir, o.store(), o.passphrase)
	var s backup.Summary
	if file == "-" {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<20)
		s, err = backup.Write(cmd.Context(), out, origin)
		err = errors.Join(err, out.Flush())
	} else if err = backup.CheckPlace(file, o.dataDir); err == nil {
		s, err = backup.WriteFile(cmd.Context(), file, origin)
	}
	if err != nil {
		return err
	}
	said := cmd.ErrOrStderr() // the standard output may be the backup
	fmt.Fprintf(said, "Backup of revision %d: %s, %s of keys and certificates.\n", s.Revision, counted(s.Objects, "row"), counted(s.Files, "file"))
	if s.Moved != "" {
		fmt.Fprintf(said, "It is of what the store was before it moved to %s: what was written since is there, and not in this backup.\n", s.Moved)
	}
	if s.History {
		fmt.Fprintln(said, "The object history (--object-history) is not in it: a store that is made of it begins a new one.")
	}
	if !s.HasKeys() {
		fmt.Fprintf(said, "The data directory %s has no keys and certificates: say --data-dir, or keep them by other means.\n", o.dataDir)
	}
	if len(o.passphrase) == 0 {
		fmt.Fprintln(said, exposed(&s))
	}
	return nil
}

// exposed says what a reader of an unencrypted backup learns.
func exposed(s *backup.Summary) string {
	has := "all Secrets"
	switch sealed := s.Secrets - s.ClearSecrets; {
	case s.Objects > 0 && s.Clear == 0:
		has = "the names of all objects, whose content the store encrypts"
	case sealed > 0 && s.ClearSecrets == 0:
		has = "all but the Secrets, which the store encrypts"
	case sealed > 0:
		has = fmt.Sprintf("%d of the %s, which the store does not encrypt", s.ClearSecrets, counted(s.Secrets, "Secret"))
	}
	if s.Files > 0 || s.ClearKeys {
		has += ", and the keys of the cluster, by which one may do everything there"
	}
	return "It is not encrypted: whoever reads it has " + has + "."
}

// openBackup opens the backup that a command reads.
func openBackup(name string, in io.Reader) (*os.File, error) {
	f, err := backup.Open(name, in)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	return f, nil
}
