package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/backup"
)

func newRestoreCommand() *cobra.Command {
	o, parts := &placeOptions{}, &partOptions{}
	cmd := &cobra.Command{
		Use:   "restore FILE | TYPE/NAME --revision R",
		Short: "Restore a backup, parts of one, or an earlier state of an object",
		Long: "Restores a backup (- for the standard input) into an empty data directory and an empty database of either kind. The backup is read\n" +
			"to its end before anything is written. Objects are as they were; new revisions start far above all earlier ones, so that\n" +
			"clients with old watches list again.\n\n" +
			"After an interrupted restore no server starts there; run the command again.\n\n" +
			"With --namespace or --object, it restores objects into a running server through its API: each is created, or updated if it\n" +
			"differs. A dry run of all comes before the first write; if some cannot be written, nothing of their group is, without --incomplete.\n" +
			"Encrypted objects need the EncryptionConfiguration of the server of the backup (--encryption-provider-config); a whole restore leaves\n" +
			"them encrypted.\n\n" +
			"With --revision, no backup is read: the object that is named in place of the file goes back to its state after that write, from the\n" +
			"object history of the server (--object-history). A dry run comes first, and the command fails if somebody else writes the object meanwhile.",
		Example: "  rowlock restore --data-dir /var/lib/rowlock /backup/today\n" +
			"  rowlock restore --datastore-file ./url --schema team_a /backup/team_a\n" +
			"  rowlock restore --namespace shop --dry-run /backup/today\n" +
			"  rowlock restore --object deployment/shop/web --kubeconfig ~/.kube/config /backup/today\n" +
			"  rowlock restore deployment/web -n shop --revision 48211",
		Args: func(cmd *cobra.Command, args []string) error {
			parts.noteDatabase(cmd.Flags())
			return oneArgument("the name of a file, or -, or with --revision an object,")(cmd, args)
		},
		ValidArgsFunction: completeFileOrObject(o, parts),
		RunE: func(cmd *cobra.Command, args []string) error {
			parts.byRevision = cmd.Flags().Changed("revision")
			if err := parts.complete(cmd.Flags()); err != nil {
				return err
			}
			if err := o.complete(); err != nil {
				return err
			}
			if parts.byRevision {
				return restoreRevision(cmd, o, parts, args[0])
			}
			if parts.wanted() {
				return restoreParts(cmd, o, parts, args[0])
			}
			return restoreAll(cmd, o, args[0])
		},
	}
	o.addFlags(cmd.Flags())
	parts.addFlags(cmd.Flags())
	return cmd
}

// openRestored opens a backup. If the file does not exist and its name could be TYPE/NAME, the error suggests --revision.
func openRestored(name string, in io.Reader) (*os.File, error) {
	f, err := openBackup(name, in)
	if errors.Is(err, fs.ErrNotExist) && strings.Count(name, "/") == 1 && !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, ".") {
		err = fmt.Errorf("%w; to make an object what it was, say after which write, by --revision", err)
	}
	return f, err
}

func restoreAll(cmd *cobra.Command, o *placeOptions, name string) error {
	f, err := openRestored(name, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := backup.Restore(cmd.Context(), f, backup.Destination{Store: o.store(), DataDir: o.dataDir, Passphrase: o.passphrase, Decode: func(r sqlstore.Row) error {
		return checkOwn(resources.LoadObject(r.Key, r.Revision, []byte(r.Data), nil, nil))
	}})
	if err != nil {
		return err
	}
	if r.Unsound > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %s in the backup, as in the store that it was made of: %s. 'rowlock verify' lists what is wrong, and says what to do.\n",
			counted(r.Unsound, "object is damaged", "objects are damaged"), harmless(r.FirstUnsound))
	}
	said := cmd.OutOrStdout()
	fmt.Fprintf(said, "Restored revision %d of %s: %s, %s of keys and certificates. The store begins at revision %d.\n",
		r.Revision, r.Created.Format(time.RFC3339), counted(r.Objects, "row"), counted(r.Files, "file"), r.Counter)
	if !r.HasKeys() {
		fmt.Fprintf(said, "The backup has no keys and certificates: put those of the cluster into %s/pki, or clients need new kubeconfigs.\n", o.dataDir)
	}
	return nil
}
