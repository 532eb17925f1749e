package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/history"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/archive"
	"github.com/rowlock/rowlock/sqlstore/backup"
)

// partOptions say which objects of a backup are restored into a running control plane.
type partOptions struct {
	namespaces []string
	objects    []string
	revision   int64
	byRevision bool // --revision is given, with any value
	dryRun     bool
	incomplete bool
	kubeconfig string
	encryption encryptionOptions // of the store that was backed up
	database   string            // the flag of the command line that names a database
}

func (o *partOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "`name` of a namespace to restore into a running server, with its content except Events and Leases; may be given several times. "+
		"With --revision: the namespace of the object")
	flags.StringSliceVar(&o.objects, "object", nil,
		"`type/namespace/name` of an object to restore into a running server, type/name if it has no namespace; may be given several times. "+
			"The type is written as for kubectl (deploy, deployments, deployments.apps, Deployment)")
	flags.Int64Var(&o.revision, "revision", 0, "`number` of the write to go back to, for the object that is named in place of the file; 'rowlock history' lists the writes")
	flags.BoolVar(&o.dryRun, "dry-run", false, "with --namespace, --object or --revision: report what would be done, and change nothing")
	flags.BoolVar(&o.incomplete, "incomplete", false, "with --namespace or --object: restore even if some objects cannot be restored; they are left out, and the exit code is 1")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "with --namespace, --object or --revision: kubeconfig `file` of the server"+defaultKubeconfig)
	flags.StringVar(&o.encryption.file, "encryption-provider-config", "",
		"with --namespace or --object: `file` with the EncryptionConfiguration of the server of the backup, to decrypt its objects (docs/encryption.md)")
}

func (o *partOptions) wanted() bool { return len(o.namespaces)+len(o.objects) > 0 }

// noteDatabase is called before the environment sets flags, because a database in the environment may be meant for servers.
func (o *partOptions) noteDatabase(flags *pflag.FlagSet) {
	for _, name := range []string{"datastore", "datastore-file", "schema"} {
		if flags.Changed(name) {
			o.database = "--" + name
		}
	}
}

func (o *partOptions) complete(flags *pflag.FlagSet) error {
	if o.database != "" && (o.byRevision || o.wanted()) {
		return usagef("%s excludes --namespace, --object and --revision: these go through a server that runs, which --data-dir or --kubeconfig names", o.database)
	}
	if o.incomplete && (o.byRevision || !o.wanted()) {
		return usagef("--incomplete needs --namespace or --object: what else is restored is restored as a whole")
	}
	if o.byRevision {
		return o.completeRevision()
	}
	empty := func(values []string) bool { return len(values) == 0 || slices.Contains(values, "") } // "$NAMESPACE", say, of an unset variable
	if flags.Changed("namespace") && empty(o.namespaces) || flags.Changed("object") && empty(o.objects) {
		return usagef("--namespace and --object need a name: without one, the whole backup would be restored")
	}
	if !o.wanted() && (o.dryRun || o.kubeconfig != "") {
		return usagef("--dry-run and --kubeconfig need --namespace, --object or --revision: a whole restore makes a new store")
	}
	for _, name := range o.objects {
		if n := strings.Count(name, "/"); n < 1 || n > 2 {
			return usagef("--object %q is not of the form type/namespace/name or type/name", name)
		}
	}
	return nil
}

// completeRevision is complete for restoring an object to a revision.
func (o *partOptions) completeRevision() error {
	switch {
	case o.revision < 1:
		return usagef("--revision %d is no number of a write", o.revision)
	case len(o.objects) > 0:
		return usagef("--revision is of the one object that is named in the place of the file, not of --object")
	case len(o.namespaces) > 1:
		return usagef("an object is in one namespace, not in %s", strings.Join(o.namespaces, " and "))
	}
	return nil
}

// admin returns how the control plane is reached.
func (o *partOptions) admin(place *placeOptions, flags *pflag.FlagSet) adminOptions {
	return adminOptions{dataDir: place.dataDir, kubeconfig: o.kubeconfig, flags: flags}
}

// restoreRevision restores an object to its state after a write.
func restoreRevision(cmd *cobra.Command, place *placeOptions, o *partOptions, object string) error {
	admin := o.admin(place, cmd.Flags())
	h, err := openObjectHistory(cmd.Context(), &admin, object, strings.Join(o.namespaces, ""), o.revision)
	if err != nil {
		return err
	}
	return h.restore(cmd.Context(), o.revision, o.dryRun, cmd.OutOrStdout())
}

// part is an object of a backup that is restored.
type part struct {
	resource string // the resource with its group, as in the store
	object   *unstructured.Unstructured
	uid      types.UID // the uid in the backup
	// leaveStatus: the status is not restored, if it has a subresource.
	leaveStatus bool
	// version is the one in which the object is written, if the one in which it was stored is not served.
	version string
	// left are the owners that were reported as left out.
	left []types.UID
}

func (p *part) String() string {
	name := p.object.GetName()
	if ns := p.object.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return p.resource + "/" + name
}

// restoreParts restores objects through the API: any user may do so who may write the objects, and admission applies as for other writes.
func restoreParts(cmd *cobra.Command, place *placeOptions, o *partOptions, name string) error {
	open := openRestored
	if len(o.objects) > 0 {
		open = openBackup
	}
	f, err := open(name, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer f.Close()
	checked, err := backup.Check(cmd.Context(), f, place.passphrase, nil)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	admin := o.admin(place, cmd.Flags())
	client, err := admin.client()
	if err != nil {
		return err
	}
	served, err := client.servedTypes(cmd.Context())
	if err != nil {
		return err
	}
	keys, err := o.encryption.open(cmd.Context())
	if err != nil {
		return err
	}
	defer keys.close()
	parts, err := o.read(cmd.Context(), f, place.passphrase, served, sqlstore.Decrypter(keys.transformers))
	if err != nil {
		return err
	}
	t := &takeBack{client: client, out: cmd.OutOrStdout(), dryRun: o.dryRun, incomplete: o.incomplete, resources: map[string]*servedResources{}, uids: map[types.UID]types.UID{}}
	fmt.Fprintf(t.out, "Taking back %s of revision %d.\n", counted(len(parts), "object"), checked.Revision)
	return t.all(cmd.Context(), parts)
}

// read returns the selected objects. It is an error if one that was named is not in the backup.
func (o *partOptions) read(ctx context.Context, r io.Reader, passphrase []byte, served servedTypes, keys *sqlstore.Source) ([]*part, error) {
	a, err := archive.NewReader(r, passphrase)
	if err != nil {
		return nil, err
	}
	named := o.named(served)
	var parts []*part
	var columns []string
	missing := slices.Concat(o.namespaces, o.objects)
	for {
		record, err := a.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if record.Table != nil {
			columns = record.Table.Columns
		}
		if record.Row == nil {
			continue
		}
		row, unreadable := keys.Decrypt(ctx, backup.RowOf(columns, record.Row)) // decrypted before the check, since an object may be named by its kind
		p, err := o.choose(row, unreadable, named, func(found string) {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == found })
		})
		if err != nil {
			return nil, err
		}
		if p != nil {
			parts = append(parts, p)
		}
	}
	if len(missing) > 0 {
		err := fmt.Errorf("the backup does not have %s", strings.Join(missing, ", "))
		if slices.ContainsFunc(missing, func(name string) bool { return strings.Count(name, "/") == 1 }) {
			err = fmt.Errorf("%w; what is in a namespace is named with it, as in deployment/shop/web", err)
		}
		return nil, err
	}
	return parts, nil
}

// The status of quotas is not restored, because it counts the present objects.
const quotas = "resourcequotas"

// notTaken are types whose objects are obsolete in a backup. An old Lease would take the lock from its present holder.
var notTaken = []string{"events", "events.events.k8s.io", "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io"}

// namedObject is a value of --object.
type namedObject struct {
	said, kind, rest string
	// resource is the resource that the server has for that kind; empty: it serves none of that name.
	resource string
}

func (o *partOptions) named(served servedTypes) (named []namedObject) {
	for _, said := range o.objects {
		n := namedObject{said: said}
		n.kind, n.rest, _ = strings.Cut(said, "/")
		if resource, _, ok := served.find(n.kind, history.GroupName); ok {
			if n.resource = resource.String(); n.resource == "events.events.k8s.io" {
				n.resource = "events" // the Events of both groups are the same objects, stored under the older name
			}
		}
		named = append(named, n)
	}
	return named
}

// is reports whether a row is the object. A resource that the server does not serve is matched by its plural, with or
// without the group, and by its kind.
func (n *namedObject) is(r sqlstore.Row) bool {
	switch {
	case n.rest != strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"):
		return false
	case n.resource != "":
		return n.resource == r.Resource
	}
	plural, _, _ := strings.Cut(r.Resource, ".")
	if strings.EqualFold(n.kind, r.Resource) || strings.EqualFold(n.kind, plural) {
		return true
	}
	var object struct{ unstructured.Unstructured }
	return object.UnmarshalJSON([]byte(r.Data)) == nil && strings.EqualFold(object.GetKind(), n.kind)
}

// choose returns a part for a row that is selected, nil for another. unreadable is the error of decrypting the row.
func (o *partOptions) choose(r sqlstore.Row, unreadable error, named []namedObject, found func(name string)) (*part, error) {
	chosen := false
	for _, ns := range o.namespaces {
		if itself := r.Resource == "namespaces" && r.Name == ns; itself || r.Namespace == ns {
			found(ns)
			chosen = chosen || !slices.Contains(notTaken, r.Resource)
		}
	}
	for i := range named {
		if named[i].is(r) {
			found(named[i].said)
			chosen = true
		}
	}
	if !chosen || strings.HasSuffix(r.Resource, ".rowlock.internal") {
		return nil, nil
	}
	if unreadable != nil {
		return nil, fmt.Errorf("%s is encrypted in the backup, and needs the keys of its server (--encryption-provider-config): %w", r.Key, unreadable)
	}
	p := &part{resource: r.Resource, object: &unstructured.Unstructured{}}
	if err := p.object.UnmarshalJSON([]byte(r.Data)); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Key, err)
	}
	p.uid = p.object.GetUID()
	// The status of an object that was being deleted describes that deletion, which is over; the status of a quota
	// counts the objects of that time.
	p.leaveStatus = p.object.GetDeletionTimestamp() != nil || p.resource == quotas
	return p, nil
}

// all restores the parts in an order in which each finds the objects that it needs. It tries all of a group before it
// writes any of the group.
func (t *takeBack) all(ctx context.Context, parts []*part) error {
	t.wanted, t.defines = map[types.UID]*part{}, map[string]bool{}
	for _, p := range parts {
		t.wanted[p.uid] = p
		if p.resource == custom.Resource {
			t.defines[p.object.GetName()] = true
		}
	}
	for rank := range ranks {
		var group []*part
		for _, p := range parts {
			if rankOf(p) == rank {
				group = append(group, p)
			}
		}
		if err := t.group(ctx, t.ownersFirst(group)); err != nil {
			return err
		}
	}
	if err := t.ownEarly(ctx); err != nil {
		return err
	}
	if t.failed > 0 {
		return fmt.Errorf("%s cannot be taken back", counted(t.failed, "object"))
	}
	return nil
}

// ranks is the number of groups. Namespaces come first; then definitions of types, ServiceAccounts and priority classes, which other objects need;
// Pods come late because they need the rest, and volumes because they need the uids of their claims. Limits on the number and size of objects come
// last, since the restored objects may exceed them.
const ranks = 5

func rankOf(p *part) int {
	switch p.resource {
	case "namespaces":
		return 0
	case custom.Resource, "serviceaccounts", "priorityclasses.scheduling.k8s.io":
		return 1
	case "pods", "persistentvolumes":
		return 3
	case quotas, "limitranges":
		return 4
	}
	return 2
}

// ownersFirst sorts owners before their dependents, which are written with the present uids of their owners.
func (t *takeBack) ownersFirst(parts []*part) []*part {
	var ordered []*part
	seen := map[types.UID]bool{}
	in := map[types.UID]bool{}
	for _, p := range parts {
		in[p.uid] = true
	}
	var visit func(p *part)
	visit = func(p *part) {
		if seen[p.uid] {
			return
		}
		seen[p.uid] = true
		for _, owner := range p.object.GetOwnerReferences() {
			if in[owner.UID] {
				visit(t.wanted[owner.UID])
			}
		}
		ordered = append(ordered, p)
	}
	for _, p := range parts {
		visit(p)
	}
	return ordered
}
