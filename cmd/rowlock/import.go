package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/resources/imports"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/etcd"
)

// importOptions say what is imported, and where.
type importOptions struct {
	to                 databaseOptions
	encryption         encryptionOptions // of the source
	own                encryptionOptions // of the target
	tls                rest.TLSClientConfig
	pki                adoptOptions
	prefix             string
	dryRun, incomplete bool
}

func newImportCommand() *cobra.Command {
	o := &importOptions{to: databaseOptions{name: "to"}, encryption: encryptionOptions{of: "source-"}}
	cmd := &cobra.Command{
		Use:   "import [FILE|URL[,URL]]",
		Short: "Import the objects of kube-apiserver's etcd, or of k3s's state.db",
		Long: "Reads an etcd snapshot ('etcdctl snapshot save', or member/snap/db of an etcd that was stopped and not killed), kine's SQLite\n" +
			"database (k3s's state.db), or a running etcd or kine by its URL (https://host:2379, http://…, unix:///path), at one revision. It fills an\n" +
			"empty database with the built-in and custom resources, and keeps their uids, times, resourceVersions and managedFields; admission is not\n" +
			"involved. New revisions start far above all imported ones, so that clients with old watches list again.\n\n" +
			"The command checks every key before it writes. --dry-run reports which objects would be imported and which would not, and why, and fails\n" +
			"if the import would be refused. If objects would be lost, nothing is imported without --incomplete.\n\n" +
			"--pki copies the keys of the cluster from kubeadm's /etc/kubernetes/pki or k3s's /var/lib/rancher/k3s/server/tls, into the data\n" +
			"directory of a server that has not started yet: kubeconfigs, certificates and tokens of before go on being good.",
		Example: "  rowlock import --dry-run snapshot.db\n" +
			"  rowlock import --to sqlite:///var/lib/rowlock/rowlock.db snapshot.db\n" +
			"  rowlock import --to-file ./url --source-encryption-provider-config enc.yaml /var/lib/rancher/k3s/server/db/state.db\n" +
			"  rowlock import --dry-run --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key https://10.0.0.2:2379\n" +
			"  rowlock import --to sqlite:///var/lib/rowlock/rowlock.db --data-dir /var/lib/rowlock --pki /etc/kubernetes/pki snapshot.db",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && o.pki.dir == "" {
				return usagef("the name of a file, or URLs of servers, is needed, or --pki, and nothing else")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// gRPC logs a warning for every attempt to connect; the error has the last one.
			upstream.LogTo(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: hideKeysOf})))
			return o.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.to.addFlags(flags, "that is filled, which is empty")
	flags.BoolVar(&o.dryRun, "dry-run", false, "report which objects would be imported, write nothing, and exit as the import would")
	flags.BoolVar(&o.incomplete, "incomplete", false, "import even if some objects cannot be imported; they are left out")
	flags.StringVar(&o.prefix, "etcd-prefix", "/registry", "`prefix` of the keys, as kube-apiserver's flag of this name")
	flags.StringVar(&o.tls.CAFile, "etcd-cafile", "", "`file` with the certificate authorities of the etcd server, in PEM; this and the next two are kube-apiserver's flags (default: the system's)")
	flags.StringVar(&o.tls.CertFile, "etcd-certfile", "", "`file` with the client certificate for the etcd server, in PEM")
	flags.StringVar(&o.tls.KeyFile, "etcd-keyfile", "", "`file` with the key of --etcd-certfile, in PEM")
	flags.StringVar(&o.encryption.file, "source-encryption-provider-config", "",
		"`file` with the EncryptionConfiguration of the kube-apiserver, if it encrypts objects")
	o.own.addFileFlag(flags)
	o.pki.addFlags(flags)
	return cmd
}

// importer is an import in progress.
type importer struct {
	snapshot etcd.Snapshot
	types    *imports.Importer
	report   importReport
	progress io.Writer
}

// open opens a file, or connects to servers.
func (o *importOptions) open(ctx context.Context, source string) (etcd.Snapshot, error) {
	if !strings.Contains(source, "://") {
		if o.tls.CAFile != "" || o.tls.CertFile != "" || o.tls.KeyFile != "" {
			return nil, usagef("--etcd-cafile, --etcd-certfile and --etcd-keyfile are for servers, and %s is a file", source)
		}
		if info, err := os.Stat(source); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
			return nil, usagef("%s is a pipe, and a snapshot is not read from its beginning to its end: name a file", source)
		}
		return etcd.Open(ctx, source)
	}
	secured, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: o.tls})
	if err != nil {
		return nil, fmt.Errorf("--etcd-cafile, --etcd-certfile and --etcd-keyfile: %w", err)
	}
	// The user may have the right to read this prefix only.
	return etcd.Dial(ctx, etcd.Servers{URLs: strings.Split(source, ","), TLS: secured}, imports.Under(o.prefix))
}

// run reads everything that is to be imported before it writes. It writes keys first: keys that exist already stay when it is run again.
func (o *importOptions) run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	var to sqlstore.Options
	var refused error // of a dry run, which first prints what would be imported
	if len(args) > 0 && (!o.dryRun || o.to.isNamed()) {
		if to, err = o.to.complete(); err != nil {
			return err
		}
		if refused = sqlstore.CheckTarget(ctx, to); refused != nil && !o.dryRun {
			return refused
		}
	}
	keys, err := o.pki.read(out)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return o.adopt(keys, out)
	}
	snapshot, err := o.open(ctx, args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	from, err := o.encryption.open(ctx)
	if err != nil {
		return err
	}
	defer from.close()
	i, err := newImporter(snapshot, o.prefix, from.transformers, progress)
	if err != nil {
		return err
	}
	if err := i.each(ctx, "checked", func(etcd.Entry, imports.Imported) error { return nil }); err != nil {
		return err
	}
	if i.report.isEmpty() {
		return fmt.Errorf("no key there begins with %s: say what the kube-apiserver has for --etcd-prefix", i.types.Prefix())
	}
	i.print(out)
	if lost := i.report.lostKeys(); lost > 0 && !o.incomplete {
		refused = errors.Join(refused, fmt.Errorf("%s cannot be imported: say --incomplete to go without", counted(lost, "object")))
	}
	if !o.dryRun && refused != nil {
		return refused
	}
	own, err := o.own.open(ctx)
	if err != nil {
		return errors.Join(refused, err)
	}
	defer own.close()
	if err := o.adopt(keys, out); err != nil || o.dryRun {
		return errors.Join(refused, err)
	}
	to.Transformers = own.transformers
	revision, err := i.fill(ctx, to)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Imported revision %d. The store begins at revision %d.\n", snapshot.Revision(), revision)
	return nil
}

// print prints which objects are imported and which are not, the definitions whose objects are not pruned, and what the source may lack.
func (i *importer) print(out io.Writer) {
	i.report.print(out)
	if large := i.report.large; len(large) > 0 {
		fmt.Fprintf(out, "Longer than a server takes without a larger --max-object-bytes, so that they can be read and not updated, %d:\n", len(large))
		printKeys(out, large)
	}
	if names := i.types.Unpruned(); len(names) > 0 {
		fmt.Fprintf(out, "With spec.preserveUnknownFields, %d: their objects come as they are, and keep what their schema does not have;\n"+
			"once the field is removed, what is to stay needs x-kubernetes-preserve-unknown-fields in the schema\n", len(names))
		printKeys(out, names)
	}
	if etcd.LacksLog(i.snapshot) {
		fmt.Fprintln(out, "This is the file of an etcd itself. If that was killed, the file lacks the last writes: start the etcd once and stop it with SIGTERM,\n"+
			"or use 'etcdctl snapshot save'")
	}
}

// adopt writes keys, if there are any to write.
func (o *importOptions) adopt(keys *pki.Adoption, out io.Writer) error {
	switch {
	case keys == nil:
		return nil
	case len(keys.Missing) > 0 && !o.incomplete:
		return errors.New("not all keys can be adopted: say --incomplete to go without them, which are made anew then")
	case o.dryRun:
		return nil
	}
	return o.pki.write(keys, out)
}

func newImporter(snapshot etcd.Snapshot, prefix string, transformers value.ResourceTransformers, progress io.Writer) (*importer, error) {
	types, err := imports.New(prefix, transformers)
	return &importer{snapshot: snapshot, types: types, progress: progress}, err
}

// each calls visit for each object, in the order of the keys, and reports values that are not objects. It tells its progress after every tellEach keys;
// did says what visit does with them.
func (i *importer) each(ctx context.Context, did string, visit func(etcd.Entry, imports.Imported) error) error {
	i.report = newImportReport()
	// The definitions have to be known before the first custom object.
	if err := i.snapshot.Each(ctx, i.types.Definitions(), func(e etcd.Entry) error {
		_, _ = i.types.Import(ctx, e.Key, e.Value) // the second pass over the keys reports the error
		return nil
	}); err != nil {
		return err
	}
	keys := 0
	return i.snapshot.Each(ctx, i.types.Prefix(), func(e etcd.Entry) error {
		if keys++; keys%tellEach == 0 {
			fmt.Fprintf(i.progress, "%d keys %s\n", keys, did)
		}
		imported, err := i.types.Import(ctx, e.Key, e.Value)
		var skipped *imports.Skipped
		switch {
		case errors.As(err, &skipped):
			i.report.skipped[skipped.Why] = append(i.report.skipped[skipped.Why], e.Key)
			return nil
		case err != nil:
			i.report.lost[err.Error()] = append(i.report.lost[err.Error()], e.Key)
			return ctx.Err()
		}
		i.report.imported[imported.Key.Resource]++
		if imported.Draft.Size() > etcdRequestBytes {
			i.report.large = append(i.report.large, e.Key)
		}
		return visit(e, imported)
	})
}

// fill writes all objects into a new store, atomically.
func (i *importer) fill(ctx context.Context, to sqlstore.Options) (revision int64, err error) {
	known := i.report
	target, err := sqlstore.OpenTarget(ctx, to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	rows, failed := make(chan []any), make(chan error, 1)
	reading, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		for range rows { // until the reader has ended
			continue
		}
	}()
	go func() {
		defer close(rows)
		failed <- i.each(reading, "imported", func(e etcd.Entry, o imports.Imported) error {
			row, err := target.ObjectRow(reading, o.Key, o.Draft, e.Revision, e.TTL)
			if err != nil {
				return fmt.Errorf("%s: %w", e.Key, err)
			}
			select {
			case rows <- row:
				return nil
			case <-reading.Done():
				return reading.Err()
			}
		})
	}()
	if err := target.Table(ctx, "objects", sqlstore.ObjectColumns, func() ([]any, error) {
		if row, ok := <-rows; ok {
			return row, nil
		}
		if err := <-failed; err != nil {
			return nil, err
		}
		return nil, io.EOF
	}); err != nil {
		return 0, err
	}
	if !maps.Equal(known.imported, i.report.imported) {
		return 0, fmt.Errorf("what was read the second time is not what was read the first time: %s could not be read, before %d; run it again",
			counted(i.report.lostKeys(), "object"), known.lostKeys())
	}
	return target.Finish(ctx, i.snapshot.Revision(), func(int64) error { return nil })
}

// importReport lists which objects are imported and which are not, by reason.
type importReport struct {
	imported      map[string]int
	skipped, lost map[string][]string
	large         []string // keys of objects that the target does not take again by default, so that they cannot be updated
}

func newImportReport() importReport {
	return importReport{imported: map[string]int{}, skipped: map[string][]string{}, lost: map[string][]string{}}
}

// isEmpty reports whether there was no key. Every kube-apiserver writes keys, so the source belongs to another program or has another prefix.
func (r *importReport) isEmpty() bool { return len(r.imported)+len(r.skipped)+len(r.lost) == 0 }

func (r *importReport) lostKeys() (n int) {
	for _, keys := range r.lost {
		n += len(keys)
	}
	return n
}

// shownKeys is how many keys are shown for a reason.
const shownKeys = 10

func (r *importReport) print(out io.Writer) { r.printAs(out, "Not imported") }

func (r *importReport) printAs(out io.Writer, lost string) {
	printObjects(out, r.imported)
	for _, part := range []struct {
		what string
		keys map[string][]string
	}{{"Not needed", r.skipped}, {lost, r.lost}} {
		for _, why := range slices.Sorted(maps.Keys(part.keys)) {
			keys := part.keys[why]
			fmt.Fprintf(out, "%s, %d: %s\n", part.what, len(keys), why)
			printKeys(out, keys)
		}
	}
}

// printObjects prints the number of objects for each resource, and the sum.
func printObjects(out io.Writer, objects map[string]int) {
	all := 0
	for _, resource := range slices.Sorted(maps.Keys(objects)) {
		all += objects[resource]
		fmt.Fprintf(out, "%8d %s\n", objects[resource], resource)
	}
	fmt.Fprintf(out, "%8d %s\n", all, noun(all, "object"))
}

func printKeys(out io.Writer, keys []string) {
	for _, key := range keys[:min(len(keys), shownKeys)] {
		fmt.Fprintf(out, "    %s\n", key)
	}
	if more := len(keys) - shownKeys; more > 0 {
		fmt.Fprintf(out, "    and %d more\n", more)
	}
}
