package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/resources/history"
)

// completionTimeout is how long a shell waits for a server.
const completionTimeout = 3 * time.Second

// completeObject completes TYPE/NAME, of objects that the history has: those that were deleted, where these are meant, or all. Where no server answers there
// is nothing to choose from.
func completeObject(admin *adminOptions, namespace *string, deleted bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return withoutFiles(nil)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		kind, _, named := strings.Cut(typed, "/")
		if admin.complete() != nil {
			return withoutFiles(nil)
		}
		if !named {
			values, directive := withoutFiles(completed(servedNames(ctx, admin), typed, false))
			return values, directive | cobra.ShellCompDirectiveNoSpace
		}
		h, err := openHistory(ctx, admin, kind+"/-", *namespace)
		if err != nil {
			return withoutFiles(nil)
		}
		return withoutFiles(completed(h.names(ctx, kind+"/", deleted), typed, false))
	}
}

// servedNames are types that a server serves, as what comes before the name of an object.
func servedNames(ctx context.Context, admin *adminOptions) (names []string) {
	client, err := admin.client()
	if err != nil {
		return nil
	}
	served, _ := client.servedTypes(ctx) // of an error there is nothing to say
	for _, g := range served {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				name := strings.TrimSuffix(r.Resource+"."+g.Name, ".") + "/"
				if g.Name != history.GroupName && slices.Contains(r.Verbs, "list") && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// names are those of the objects of the type and the namespace that were written last, behind a prefix.
func (h *objectHistory) names(ctx context.Context, prefix string, deleted bool) (names []string) {
	path := h.path(history.Revisions, history.ClusterRevisions)
	if deleted {
		path = h.path(history.Trash, history.ClusterTrash)
	}
	revisions, _, _ := h.page(ctx, path, h.query("object.resource="+h.resource.String())) // of an error there is nothing to say
	for _, r := range revisions {
		if name := prefix + r.Object.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
