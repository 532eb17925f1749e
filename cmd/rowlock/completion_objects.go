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

// completeObject completes the name in TYPE/NAME, of objects that the history has: those that were deleted, where these are meant, or all. Where no server
// answers there is nothing to choose from.
func completeObject(admin *adminOptions, namespace *string, deleted bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		kind, _, named := strings.Cut(typed, "/")
		if len(args) > 0 || !named || admin.complete() != nil {
			return withoutFiles(nil)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		h, err := openHistory(ctx, admin, kind+"/-", *namespace)
		if err != nil {
			return withoutFiles(nil)
		}
		return withoutFiles(completed(h.names(ctx, kind+"/", deleted), typed, false))
	}
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
