package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rowlock/rowlock/server/codec"
)

// historyOptions are the flags of rowlock history.
type historyOptions struct {
	admin     adminOptions
	namespace string
	revision  int64
	diff      bool
}

func newHistoryCommand() *cobra.Command {
	o := &historyOptions{}
	cmd := &cobra.Command{
		Use:   "history TYPE/NAME",
		Short: "Show who wrote an object, when, and what changed",
		Long: "Shows the writes of an object, the last one first, from the object history of a server (--object-history). The object may be deleted.\n" +
			"The type is a resource, a short name or a kind (deployments, deploy, Deployment), with its group if needed\n" +
			"(deployments.apps). A type that is no longer served needs its plural and group, and --namespace if its objects had one.",
		Example: "  rowlock history deployment/web -n shop\n" +
			"  rowlock history deployment/web -n shop --diff\n" +
			"  rowlock history namespace/shop\n" +
			"  rowlock history widgets.example.com/w -n shop --revision 48211 --diff",
		Args:              oneArgument("an object, as in deployment/web,"),
		ValidArgsFunction: completeObject(&o.admin, &o.namespace, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.admin.complete(); err != nil {
				return err
			}
			h, err := openObjectHistory(cmd.Context(), &o.admin, args[0], o.namespace, o.revision)
			if err != nil {
				return err
			}
			return o.show(cmd.Context(), h, cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *historyOptions) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	addNamespaceFlag(flags, &o.namespace)
	flags.BoolVar(&o.diff, "diff", false, "show what each write changed, as a unified diff of YAML")
	flags.Int64Var(&o.revision, "revision", 0, "`number` of a single write to show")
	o.admin.addFlags(flags)
}

func addNamespaceFlag(flags *pflag.FlagSet, into *string) {
	flags.StringVarP(into, "namespace", "n", "", "`name` of the namespace of the object (default: the kubeconfig's, or default)")
}

func (o *historyOptions) show(ctx context.Context, h *objectHistory, out io.Writer) error {
	revisions, err := h.revisions(ctx, o.revision)
	if err != nil {
		return err
	}
	if len(revisions) == 0 && o.revision > 0 {
		return fmt.Errorf("the history has no write of %s with revision %d", h, o.revision)
	}
	if len(revisions) == 0 {
		return fmt.Errorf("the history has nothing of %s", h)
	}
	if !o.diff {
		return printHistory(revisions, out)
	}
	for i, r := range revisions {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := h.printDiff(ctx, r, out); err != nil {
			return err
		}
	}
	return nil
}

// shownPaths is how many changed fields a row of the table shows.
const shownPaths = 3

func printHistory(revisions []*historyRevision, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "REVISION\tTIME\tOPERATION\tREQUEST\tUSER\tAGENT\tUID\tCHANGED")
	for _, r := range revisions {
		agent, _, _ := strings.Cut(r.Requester.UserAgent, " ")
		paths := r.Paths
		if len(paths) > shownPaths {
			paths = append(paths[:shownPaths:shownPaths], fmt.Sprintf("and %d more", len(r.Paths)-shownPaths))
		}
		cells := []string{r.Name, r.when(), r.Operation, r.request(), r.who(), dash(agent), dash(string(r.Object.UID)), dash(strings.Join(paths, ", "))}
		for i := range cells {
			cells[i] = harmless(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (r *historyRevision) when() string { return r.CreationTimestamp.UTC().Format(time.RFC3339) }

// request returns the verb and the subresource of the request.
func (r *historyRevision) request() string {
	return dash(strings.TrimSpace(r.Requester.Verb + " " + r.Requester.Subresource))
}

func (r *historyRevision) who() string {
	if r.Requester.As != "" {
		return r.Requester.User + " as " + r.Requester.As
	}
	return dash(r.Requester.User)
}

// printDiff prints a write and its changes.
func (h *objectHistory) printDiff(ctx context.Context, r *historyRevision, out io.Writer) error {
	fmt.Fprintf(out, "revision %s\nTime: %s\nUser: %s\nAgent: %s\nRequest: %s\nOperation: %s %s\n",
		r.Name, r.when(), harmless(r.who()), harmless(dash(r.Requester.UserAgent)), harmless(r.request()), r.Operation, h)
	full, err := h.get(ctx, r.Name)
	if err != nil {
		return err
	}
	switch {
	case full.Unreadable:
		fmt.Fprintln(out, "The object is not there: it could not be decrypted, or is too large for --object-history-size.")
		return nil
	case full.Operation == "Delete": // the write before, which has the same state, may no longer be in the history
		full.State.Before, full.State.After = full.State.After, nil
	case full.Operation == "Update" && full.State.Before == nil:
		fmt.Fprintln(out, "What it was before is not there: it is too large for --object-history-size.")
	}
	before, err := yamlLines(full.State.Before)
	after, errAfter := yamlLines(full.State.After)
	if err := cmp.Or(err, errAfter); apierrors.IsNotAcceptable(err) {
		fmt.Fprintln(out, "The object is nested too deeply to be shown as YAML: kubectl get --raw", h.written()+"/"+r.Name)
		return nil
	} else if err != nil {
		return err
	}
	return difflib.WriteUnifiedDiff(out, difflib.UnifiedDiff{A: before, B: after, FromFile: "before", ToFile: "after", Context: 3})
}

// yamlLines returns the lines of an object as YAML; none for nil.
func yamlLines(object storedObject) ([]string, error) {
	if object == nil {
		return nil, nil
	}
	text, err := json.Marshal(object)
	if err == nil {
		text, err = codec.ToYAML(text)
	}
	if err != nil {
		return nil, err
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n")+"\n", "\n"), nil
}
