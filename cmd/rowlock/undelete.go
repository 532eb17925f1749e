package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/sqlstore/recording"
)

// undeleteOptions are the flags of rowlock undelete.
type undeleteOptions struct {
	admin     adminOptions
	namespace string
	revision  int64
	dryRun    bool
}

func newUndeleteCommand() *cobra.Command {
	o := &undeleteOptions{}
	cmd := &cobra.Command{
		Use:   "undelete TYPE/NAME",
		Short: "Create a deleted object again",
		Long: "Creates an object as it was when it was deleted, from the object history of the server (--object-history): the last object of that name,\n" +
			"or that of --revision. It gets a new uid. A dry run comes first; the command fails if an object of that name exists.\n" +
			"Undelete the namespace of the object, and the definition of its type, before the object.",
		Example: "  rowlock undelete configmap/settings -n shop --dry-run\n" +
			"  rowlock undelete namespace/shop && rowlock undelete deployment/web -n shop",
		Args:              oneArgument("an object, as in deployment/web,"),
		ValidArgsFunction: completeObject(&o.admin, &o.namespace, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.admin.complete(); err != nil {
				return err
			}
			h, err := openObjectHistory(cmd.Context(), &o.admin, args[0], o.namespace, o.revision)
			if err != nil {
				return err
			}
			return h.undelete(cmd.Context(), o.revision, o.dryRun, cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *undeleteOptions) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	addNamespaceFlag(flags, &o.namespace)
	flags.Int64Var(&o.revision, "revision", 0, "`number` of the deletion to undo (default: the last one)")
	flags.BoolVar(&o.dryRun, "dry-run", false, "report what would be done, and change nothing")
	o.admin.addFlags(flags)
}

// undelete creates the object in its state at its last deletion, or at the deletion of a revision.
func (h *objectHistory) undelete(ctx context.Context, revision int64, dryRun bool, out io.Writer) error {
	deletions, err := h.deletions(ctx, revision)
	if err != nil {
		return err
	}
	if len(deletions) == 0 {
		return fmt.Errorf("the history has no deletion of %s", h)
	}
	return h.takeBack(ctx, deletions[0].Name, &takeBack{out: out, dryRun: dryRun, onlyCreates: true})
}

// restore restores the object to its state after a write.
func (h *objectHistory) restore(ctx context.Context, revision int64, dryRun bool, out io.Writer) error {
	return h.takeBack(ctx, strconv.FormatInt(revision, 10), &takeBack{out: out, dryRun: dryRun, refuses: true})
}

// takeBack writes the object in its state after a write.
func (h *objectHistory) takeBack(ctx context.Context, revision string, t *takeBack) error {
	r, err := h.get(ctx, revision)
	if err != nil {
		return err
	}
	if r.Object.Resource != h.resource.String() || r.Object.Name != h.name {
		return fmt.Errorf("revision %s is one of %s/%s", revision, r.Object.Resource, r.Object.Name)
	}
	p, err := r.part()
	if err != nil {
		return fmt.Errorf("revision %s: %w", revision, err)
	}
	t.client, t.resources, t.uids = h.client, map[string]*servedResources{}, map[types.UID]types.UID{}
	s, err := t.feasible(ctx, p)
	if err != nil {
		return fmt.Errorf("%s cannot be taken back: %w", p, err)
	}
	return t.do(ctx, s)
}

// part returns the object of a revision in the form in which it is written. Its status is not restored: controllers set it, and the status
// of an object that was being deleted describes the deletion.
func (r *historyRevision) part() (*part, error) {
	if len(r.State.After) == 0 {
		return nil, errors.New("the history has no object: it could not be decrypted, or is too large for --object-history-size")
	}
	p := &part{resource: r.Object.Resource, object: &unstructured.Unstructured{Object: r.State.After}, uid: r.Object.UID, leaveStatus: true}
	if p.resource == recording.Secrets && hashed(p.object) {
		return nil, errors.New("the history has hashes in the place of the values of Secrets: a server keeps the values with --object-history-secrets, from then on")
	}
	// The finalizers of a propagation policy are not part of the wanted state.
	p.object.SetFinalizers(slices.DeleteFunc(p.object.GetFinalizers(), func(name string) bool {
		return name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents
	}))
	return p, nil
}

// hashed tells whether a Secret has a hash in place of a value, or of the annotation that repeats the values.
func hashed(secret *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"data"}, {"metadata", "annotations"}} {
		values, _, _ := unstructured.NestedMap(secret.Object, path...)
		for _, value := range values {
			if text, ok := value.(string); ok && strings.HasPrefix(text, recording.HashPrefix) {
				return true
			}
		}
	}
	return false
}
