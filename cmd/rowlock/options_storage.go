package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/backup"
)

// storageOptions are the flags about the database.
type storageOptions struct {
	datastore     string
	datastoreFile string
	schema        string
	historyAge    time.Duration
	historySize   resource.QuantityValue
	eventTTL      time.Duration
	maxObject     int
	synchronous   string
}

// databaseAwaitTimeout is how long a start waits for a Postgres that cannot be reached. A machine that starts at the same
// time as its database needs this time, and an error in the address still shows soon.
const databaseAwaitTimeout = time.Minute

// etcdRequestBytes is the default limit of a request to etcd, in bytes (--max-request-bytes).
const etcdRequestBytes = 1536 << 10

func (o *storageOptions) addFlags(flags *pflag.FlagSet) {
	o.addDatabaseFlags(flags)
	o.addOtherFlags(flags)
}

// addDatabaseFlags adds the flags that name the database.
func (o *storageOptions) addDatabaseFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.datastore, "datastore", "",
		"`URL` of the database: sqlite:// and the path of a file (default sqlite://<data-dir>/rowlock.db), or "+
			"postgres://user@host/database with libpq's parameters. Keep a password in --datastore-file or ROWLOCK_DATASTORE: "+
			"other users of the machine can see the command line")
	flags.Lookup("datastore").Annotations = map[string][]string{classified: {"true"}} // it may contain a password
	flags.StringVar(&o.datastoreFile, "datastore-file", "", "`file` with the URL of the database; each new connection uses the user, password and certificates that it has then")
	flags.StringVar(&o.schema, "schema", "",
		"`name` of the Postgres schema of the tables, which a server creates if it is missing; each schema is a control plane of its own "+
			"(default: the first schema of the search path)")
}

func (o *storageOptions) addOtherFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.historyAge, "history-age", sqlstore.DefaultHistoryAge,
		"how long past revisions can be read and watched from; a client that was away for longer has to list again")
	o.historySize.Quantity = *resource.NewQuantity(sqlstore.DefaultHistorySize, resource.BinarySI)
	flags.Var(&o.historySize, "history-size", "most bytes of the history of revisions; older revisions are removed even before --history-age")
	flags.DurationVar(&o.eventTTL, "event-ttl", builtin.DefaultEventTTL, "how long an Event is kept after its last write, in whole seconds; 0: for ever")
	flags.IntVar(&o.maxObject, "max-object-bytes", etcdRequestBytes,
		"most `bytes` of an object with its managedFields, in protobuf where its type has that, else in JSON; the default is etcd's limit of a request. "+
			"A request may always have at most 3145728; 0 sets no other limit")
	flags.Var(newChoice(&o.synchronous, "full", "normal"), "sqlite-synchronous",
		"full: acknowledged writes survive a power cut. normal: writes are faster, but a power cut or a crash of "+
			"the operating system loses the last acknowledged writes; a crash of Rowlock loses nothing")
}

// complete validates the flags and determines the URL of the database.
func (o *storageOptions) complete(dataDir string) error {
	if err := o.completeDatabase(dataDir); err != nil {
		return err
	}
	return o.checkOthers()
}

// completeDatabase determines the URL of the database. No error contains it, since it may have a password.
func (o *storageOptions) completeDatabase(dataDir string) error {
	name := "--datastore"
	switch {
	case o.datastore != "" && o.datastoreFile != "":
		return usagef("--datastore and --datastore-file both name the database: give one or the other")
	case o.datastoreFile != "":
		name = "--datastore-file"
		var err error
		if o.datastore, err = o.readURL(); err != nil {
			return err
		}
	case o.datastore == "":
		o.datastore = "sqlite://" + filepath.Join(dataDir, "rowlock.db")
	}
	if err := sqlstore.CheckURL(o.datastore); err != nil {
		return usagef("%s: %w", name, err)
	}
	err := sqlstore.CheckSchema(o.datastore, o.schema)
	switch {
	case errors.Is(err, sqlstore.ErrNoSchemas):
		return usagef("--schema needs a Postgres: %w", err)
	case err != nil:
		return usagef("--schema: %w", err)
	}
	return nil
}

// readURL reads --datastore-file.
func (o *storageOptions) readURL() (string, error) {
	text, err := os.ReadFile(o.datastoreFile)
	if err != nil {
		return "", fmt.Errorf("--datastore-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (o *storageOptions) checkOthers() error {
	switch {
	case o.historyAge <= 0:
		return usagef("--history-age must be positive")
	case o.historySize.Value() <= 0:
		return usagef("--history-size must be positive")
	case o.eventTTL < 0:
		return usagef("--event-ttl must not be negative")
	case o.maxObject < 0:
		return usagef("--max-object-bytes must not be negative")
	}
	return nil
}

// store returns the options for opening the database.
func (o *storageOptions) store() sqlstore.Options {
	store := sqlstore.Options{URL: o.datastore, Schema: o.schema, AwaitTimeout: databaseAwaitTimeout, HistoryAge: o.historyAge,
		HistorySize: o.historySize.Value(), MaxObjectBytes: o.maxObject, Synchronous: o.synchronous}
	if o.datastoreFile != "" {
		store.RereadURL = o.readURL
	}
	return store
}

// checkThere refuses a database that does not exist, which a command that needs one would create, one whose restore has not finished, and one whose
// tables the command would upgrade.
func (o *storageOptions) checkThere(ctx context.Context, dataDir string, store sqlstore.Options) error {
	if path, ok := strings.CutPrefix(o.datastore, "sqlite://"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no database at %s: name another one with --datastore, or start a server", path)
		}
	}
	if err := backup.CheckFinished(dataDir); err != nil {
		return err
	}
	return sqlstore.CheckTables(ctx, store)
}
