package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/backup"
)

// backupOptions are the flags of the backups that a server makes.
type backupOptions struct {
	dir            string
	every          time.Duration
	keep           int
	passphraseFile string
	flags          *pflag.FlagSet
}

// leastBackupInterval keeps a server from spending most of its time on backups.
const leastBackupInterval = time.Second

func (o *backupOptions) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	flags.StringVar(&o.dir, "backup-dir", "",
		"`directory` for backups of this server, which no other server uses; without it, no backups are made. Their format is that of "+
			"'rowlock backup'")
	flags.DurationVar(&o.every, "backup-every", time.Hour, "time between two backups")
	flags.IntVar(&o.keep, "backup-keep", 24, "number of backups to keep")
	addPassphraseFlag(flags, &o.passphraseFile, "backup-passphrase-file", "read for each backup")
}

func addPassphraseFlag(flags *pflag.FlagSet, file *string, name, more string) {
	flags.StringVar(file, name, "", "`file` whose first line is the passphrase that encrypts backups; "+more)
}

func (o *backupOptions) complete(dataDir string) error {
	if o.dir == "" {
		for _, name := range []string{"backup-every", "backup-keep", "backup-passphrase-file"} {
			if o.flags.Changed(name) {
				return usagef("--%s needs --backup-dir: without it no backups are made", name)
			}
		}
		return nil
	}
	switch {
	case o.every < leastBackupInterval:
		return usagef("--backup-every must be at least %v", leastBackupInterval)
	case o.keep < 1:
		return usagef("--backup-keep must be at least 1")
	}
	var err error
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return fmt.Errorf("--backup-dir: %w", err)
	}
	if err := backup.CheckPlace(o.dir, dataDir); err != nil {
		return usagef("--backup-dir: %w", err)
	}
	_, err = readPassphrase(o.passphraseFile)
	if err != nil {
		return fmt.Errorf("--backup-passphrase-file: %w", err)
	}
	return nil
}

// readPassphrase reads the first line of a file; without a file there is no passphrase.
func readPassphrase(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
		return nil, fmt.Errorf("%s has no passphrase in its first line", file)
	}
	return line, nil
}

// keeper returns a function that makes the backups of a server until its context ends. They are made of the schema that
// the server has opened: the search path of another role, which the file of --datastore-file may name by then, is not
// followed.
func (o *backupOptions) keeper(server *serveOptions, schema string, logger *slog.Logger, metrics prometheus.Registerer) (func(context.Context), error) {
	if o.dir == "" {
		return func(context.Context) {}, nil
	}
	k := &backup.Keeper{Dir: o.dir, Every: o.every, Keep: o.keep, Logger: logger, Clock: clock.RealClock{},
		Origin: func() (backup.Origin, error) {
			passphrase, err := readPassphrase(o.passphraseFile)
			store := server.storage.store()
			store.Schema, store.Logger = schema, logger
			return backupOrigin(server.dataDir, store, passphrase), err
		}}
	return k.Run, k.Register(metrics)
}

func backupOrigin(dataDir string, store sqlstore.Options, passphrase []byte) backup.Origin {
	return backup.Origin{Store: store, DataDir: dataDir, Passphrase: passphrase, Version: ownVersion(), Now: time.Now}
}
