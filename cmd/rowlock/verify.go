package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/backup"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// verifyOptions are the flags of rowlock verify.
type verifyOptions struct {
	place      placeOptions
	encryption encryptionOptions
}

func newVerifyCommand() *cobra.Command {
	o := &verifyOptions{}
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check a database or a backup for damage",
		Long: "Reads a whole database or backup, and reports what is wrong and what to do: tables and indexes, each object by its type, the server's\n" +
			"own rows, the log of changes by itself and against the objects, the object history, and the counter of revisions; and the keys and\n" +
			"certificates in pki/ of the data directory or the backup, as a server reads them. Nothing is changed.\n\n" +
			"It reads a consistent state, also while a server runs, which it slows down; it can check a copy or a backup instead. A backup\n" +
			"is restored into a temporary directory, which needs the space. Encrypted objects are checked with the servers'\n" +
			"--encryption-provider-config.\n\n" +
			"The exit code is 0 if nothing is wrong.",
		Example: "  rowlock verify\n" +
			"  rowlock verify --datastore sqlite:///copy/of/rowlock.db\n" +
			"  rowlock verify --passphrase-file ./passphrase /backup/today",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("one backup at most can be named")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.place.complete(); err != nil {
				return err
			}
			return o.run(cmd, args)
		},
	}
	o.place.addFlags(cmd.Flags())
	o.encryption.addFileFlag(cmd.Flags())
	return cmd
}

func (o *verifyOptions) run(cmd *cobra.Command, args []string) error {
	e, err := o.encryption.open(cmd.Context())
	if err != nil {
		return err
	}
	defer e.close()
	if len(args) > 0 {
		return verifyBackup(cmd, &o.place, e, args[0])
	}
	store := o.place.store()
	store.Transformers = e.transformers
	return verifyStore(cmd.Context(), &store, o.place.dataDir, cmd.OutOrStdout())
}

// verifyBackup restores a backup into a temporary store and verifies that.
func verifyBackup(cmd *cobra.Command, o *placeOptions, e encryption, name string) (err error) {
	f, err := openBackup(name, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer f.Close()
	dir, err := makeTemporary("rowlock-verify-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store := sqlstore.Options{URL: "sqlite://" + filepath.Join(dir, "rowlock.db")}
	r, err := backup.Restore(cmd.Context(), f, backup.Destination{Store: store, DataDir: dir, Passphrase: o.passphrase})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "The backup of revision %d is whole: its checksum is right, and a store can be made of it.\n", r.Revision)
	store.Transformers = e.transformers
	return verifyStore(cmd.Context(), &store, dir, cmd.OutOrStdout())
}

// mostFindings is how many findings are shown: a database with more should be replaced, not repaired.
const mostFindings = 200

// verifyStore verifies a database, and the keys and certificates of a data directory.
func verifyStore(ctx context.Context, store *sqlstore.Options, dataDir string, out io.Writer) (err error) {
	source, err := sqlstore.OpenSource(ctx, *store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if moved := source.State().Moved; moved != "" {
		fmt.Fprintf(out, "The store has moved to %s. This is what it was before, and takes no writes; see docs/migration.md.\n", moved)
	}
	types, err := newStoredTypes(ctx, source)
	if err != nil {
		return err
	}
	findings := 0
	found := func(f sqlstore.Finding) {
		if findings++; findings <= mostFindings {
			fmt.Fprintf(out, "%s: %s\n    %s\n", harmless(f.Where), harmless(f.What), f.Do)
		}
	}
	if err := checkKeys(ctx, source, dataDir, out, found); err != nil {
		return err
	}
	options := sqlstore.VerifyOptions{Decode: types.check, DecodePast: types.checkPast, HasLifetime: types.haveLifetime, Found: found}
	if store.Transformers != nil {
		options.Plain = source.Decrypt
	}
	result, err := source.Verify(ctx, options)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s and %s at revision %d: ", counted(result.Objects, "object"), counted(result.Changes, "change"), source.State().Revision)
	if result.Revisions > 0 {
		fmt.Fprintf(out, "with %s in the object history; ", counted(result.Revisions, "write"))
	}
	if result.Encrypted > 0 {
		fmt.Fprintf(out, "%s not decoded, for want of --encryption-provider-config; ",
			counted(result.Encrypted, "of them is encrypted, and was", "of them are encrypted, and were"))
	}
	if findings > 0 {
		wrong := counted(findings, "thing is", "things are") + " wrong"
		fmt.Fprintf(out, "%s.\n", wrong)
		return fmt.Errorf("the store is not whole: %s", wrong)
	}
	fmt.Fprintln(out, "nothing is wrong.")
	return nil
}

// checkKeys checks the keys and certificates of a data directory.
func checkKeys(ctx context.Context, source *sqlstore.Source, dataDir string, out io.Writer, found func(sqlstore.Finding)) error {
	var stored []string
	if err := source.Objects(ctx, pki.AuthoritiesResource, func(r sqlstore.Row) error {
		stored = append(stored, r.Name)
		return nil
	}); err != nil {
		return err
	}
	pki.CheckFiles(dataDir, stored, source.State().Kind == "postgres", func(file string, err error, do string) {
		if errors.Is(err, fs.ErrPermission) {
			fmt.Fprintf(out, "%s was not checked: %v\n", file, err)
			return
		}
		found(sqlstore.Finding{Where: "file " + file, What: strings.ReplaceAll(err.Error(), dataDir+"/", ""), Do: do})
	})
	return nil
}

// storedTypes are the types of the objects in a database.
type storedTypes struct {
	catalog *resources.Catalog
	defined map[string]*apiextensionsv1.CustomResourceDefinition // by resource
	sealed  bool                                                 // some definitions are encrypted, so the types that they define are not known
}

// newStoredTypes returns the built-in types in all versions, whether or not servers serve them, and those that are defined in the database.
func newStoredTypes(ctx context.Context, source *sqlstore.Source) (*storedTypes, error) {
	all, err := builtin.ParseRuntimeConfig(map[string]string{"api/all": "true"})
	if err != nil {
		return nil, err
	}
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Parts{APIs: all}.Groups())
	s := &storedTypes{catalog: registry.Catalog(), defined: map[string]*apiextensionsv1.CustomResourceDefinition{}}
	definitions, ok := s.catalog.Type(custom.Resource)
	if !ok {
		return nil, errors.New("the type of definitions is not there")
	}
	err = source.Objects(ctx, custom.Resource, func(r sqlstore.Row) error {
		r, err := source.Decrypt(ctx, r)
		if err != nil {
			s.sealed = true
			return ctx.Err()
		}
		decoded, err := definitions.DecodeStored(resources.LoadObject(r.Key, r.Revision, []byte(r.Data), nil, nil))
		if err != nil {
			return nil //nolint:nilerr // the check of the object reports the error
		}
		if d, ok := decoded.(*apiextensionsv1.CustomResourceDefinition); ok {
			s.defined[schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}.String()] = d
		}
		return nil
	})
	return s, err
}

// check returns the error of an object.
func (s *storedTypes) check(r sqlstore.Row) error {
	o := resources.LoadObject(r.Key, r.Revision, []byte(r.Data), nil, nil)
	if t, ok := s.catalog.Type(r.Resource); ok {
		return checkBuiltin(t, o, r)
	}
	if d := s.defined[r.Resource]; d != nil {
		return checkCustom(o, d)
	}
	if err := resources.CheckStoredRow(o); err != nil {
		return err
	}
	if !strings.HasSuffix(r.Resource, ".rowlock.internal") && !s.sealed {
		return fmt.Errorf("is of a type %s that nobody serves and no definition defines", r.Resource)
	}
	return checkOwn(o)
}

// checkOwn returns the error of a row of the server's own; nil for any other object.
func checkOwn(o *resources.Object) error {
	for _, check := range []func(*resources.Object) error{pki.CheckRow, authn.CheckRow, controlplane.CheckRow, custom.CheckRow} {
		if err := check(o); err != nil {
			return fmt.Errorf("is of no use to a server: %w", err)
		}
	}
	return nil
}

// checkPast returns the error of an object in the log. It does not use definitions, which may have been deleted or recreated since.
func (s *storedTypes) checkPast(r sqlstore.Row) error {
	o := resources.LoadObject(r.Key, r.Revision, []byte(r.Data), nil, nil)
	if t, ok := s.catalog.Type(r.Resource); ok {
		return checkBuiltin(t, o, r)
	}
	return resources.CheckStoredRow(o)
}

// haveLifetime tells whether objects of a resource may expire: Events, and of the server's own rows the tokens and the members.
func (s *storedTypes) haveLifetime(resource string) bool {
	if t, ok := s.catalog.Type(resource); ok {
		return t.TTL != nil
	}
	return resource == authn.TokensResource || resource == controlplane.MembersResource
}

func checkBuiltin(t *resources.Type, o *resources.Object, r sqlstore.Row) error {
	kept := ""
	if r.Fields != nil {
		kept = *r.Fields
	}
	if t.Namespaced != (r.Namespace != "") {
		return fmt.Errorf("has the namespace %q, which is not the scope of its type", r.Namespace)
	}
	return t.CheckStored(o, kept)
}
