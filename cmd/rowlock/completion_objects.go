package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
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
		h.name = ""
		ask := h.revisions
		if deleted {
			ask = h.deletions
		}
		revisions, _ := ask(ctx, 0) // of an error there is nothing to say
		var names []string
		for _, r := range revisions {
			names = append(names, kind+"/"+r.Object.Name)
		}
		slices.Sort(names)
		return withoutFiles(completed(slices.Compact(names), typed, false))
	}
}
