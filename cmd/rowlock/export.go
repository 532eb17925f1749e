package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/imports"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/etcd"
)

// exportOptions say what is exported, and how.
type exportOptions struct {
	dataDir     string
	storage     storageOptions
	own, target encryptionOptions
	prefix      string
	incomplete  bool
}

func newExportCommand() *cobra.Command {
	o := &exportOptions{target: encryptionOptions{of: "target-"}}
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write an etcd snapshot for kube-apiserver",
		Long: "Writes a consistent state of the database, also while servers run, as a snapshot file like that of 'etcdctl snapshot save'. 'etcdutl snapshot\n" +
			"restore' makes the data directory of an etcd from it, and kube-apiserver then serves the same objects, with their uids, times,\n" +
			"resourceVersions and managedFields. The database is not changed. resourceVersions continue from their present value; watches have to list again.\n\n" +
			"--encryption-provider-config decrypts encrypted objects, and --target-encryption-provider-config encrypts them for the kube-apiserver.\n" +
			"Without the latter, the file contains Secrets in clear; only its owner can read it.\n\n" +
			"The keys and certificates for kube-apiserver's flags are in pki/ of the data directory.",
		Example: "  rowlock export snapshot.db\n" +
			"  rowlock export --datastore-file ./url --target-encryption-provider-config enc.yaml snapshot.db",
		Args: oneArgument("the name of a file"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if args[0] == "-" { // as rowlock backup accepts it
				return usagef("a snapshot is not written from its beginning to its end, so not to the standard output: name a file")
			}
			if o.dataDir, err = absoluteDataDir(o.dataDir); err != nil {
				return err
			}
			if err := o.storage.completeDatabase(o.dataDir); err != nil {
				return err
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addDataDirFlag(flags, &o.dataDir)
	o.storage.addDatabaseFlags(flags)
	o.own.addFileFlag(flags)
	flags.StringVar(&o.target.file, "target-encryption-provider-config", "",
		"`file` with the EncryptionConfiguration of the kube-apiserver; the snapshot is encrypted with it")
	flags.StringVar(&o.prefix, "etcd-prefix", "/registry", "`prefix` of the keys, as kube-apiserver's flag of this name")
	flags.BoolVar(&o.incomplete, "incomplete", false, "export even if some objects cannot be exported; they are left out")
	return cmd
}

// exporter is an export in progress.
type exporter struct {
	source *sqlstore.Source
	types  *imports.Exporter
	now    time.Time
	report importReport
	// clear counts the Secrets that are not encrypted.
	clear int
}

func (o *exportOptions) run(ctx context.Context, file string, out io.Writer) (err error) {
	own, err := o.own.open(ctx)
	if err != nil {
		return err
	}
	defer own.close()
	target, err := o.target.open(ctx)
	if err != nil {
		return err
	}
	defer target.close()
	source, err := sqlstore.OpenSource(ctx, sqlstore.Options{URL: o.storage.datastore, Schema: o.storage.schema, Transformers: own.transformers})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if moved := source.State().Moved; moved != "" {
		fmt.Fprintf(out, "The store has moved to %s. This is what it was before, and takes no writes; see docs/migration.md.\n", moved)
	}
	e := &exporter{source: source, now: time.Now()}
	if e.types, err = imports.NewExporter(o.prefix, target.transformers); err != nil {
		return err
	}
	writer, err := etcd.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	if err := e.each(ctx, writer.Put); err != nil {
		return err
	}
	e.report.printAs(out, "Not exported")
	if large := e.report.large; len(large) > 0 {
		fmt.Fprintf(out, "Longer than etcd takes without a larger --max-request-bytes, so that they can be read and not updated, %d:\n", len(large))
		printKeys(out, large)
	}
	if lost := e.report.lostKeys(); lost > 0 && !o.incomplete {
		return fmt.Errorf("%s cannot be exported: say --incomplete to go without", counted(lost, "object"))
	}
	if err := writer.Finish(source.State().Beyond); err != nil {
		return err
	}
	clear := ""
	if e.clear > 0 {
		clear = " " + counted(e.clear, "Secret is", "Secrets are") + " in it in clear."
	}
	fmt.Fprintf(out, "%s has the state of revision %d.%s\n", file, source.State().Revision, clear)
	return nil
}

// each calls visit with the entry that kube-apiserver would have stored for each object, and reports objects without one.
func (e *exporter) each(ctx context.Context, visit func(etcd.Entry) error) error {
	e.report = newImportReport()
	if err := e.source.Objects(ctx, imports.DefinitionsResource(), func(r sqlstore.Row) error {
		if o, err := e.object(ctx, r); err == nil {
			_ = e.types.Define(o) // the second pass over the objects reports the error
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	return e.source.Objects(ctx, "", func(r sqlstore.Row) error {
		key, value, err := "", []byte(nil), error(nil)
		if r.Expires != nil && *r.Expires <= e.now.UnixMilli() {
			return nil // it has expired and is about to be removed
		}
		o, err := e.object(ctx, r)
		if err == nil {
			key, value, err = e.types.Export(ctx, o)
		}
		var skipped *imports.Skipped
		switch {
		case errors.As(err, &skipped):
			e.report.skipped[skipped.Why] = append(e.report.skipped[skipped.Why], r.String())
			return nil
		case err != nil:
			e.report.lost[err.Error()] = append(e.report.lost[err.Error()], r.String())
			return ctx.Err()
		}
		e.report.imported[r.Resource]++
		if r.Resource == "secrets" && !imports.IsEncrypted(value) {
			e.clear++
		}
		if len(value) > etcdRequestBytes {
			e.report.large = append(e.report.large, key)
		}
		entry := etcd.Entry{Key: key, Value: value, Revision: r.Revision}
		if r.Expires != nil {
			entry.TTL = time.Duration(*r.Expires-e.now.UnixMilli()) * time.Millisecond
		}
		return visit(entry)
	})
}

// object returns the object of a row, decrypted.
func (e *exporter) object(ctx context.Context, r sqlstore.Row) (*resources.Object, error) {
	if r.IsEncrypted() {
		plain, err := e.source.Decrypt(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("decrypt it: %w", err)
		}
		r = plain
	}
	return resources.LoadObject(r.Key, r.Revision, []byte(r.Data), nil, nil), nil
}
