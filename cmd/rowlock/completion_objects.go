package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

const (
	// completionTimeout is how long a shell waits for a server.
	completionTimeout = 3 * time.Second
	// completionMore is how long it waits for more than a server has told already.
	completionMore = time.Second
)

// completeFileOrObject completes the object of restore --revision, which stands in the place of a file; where there is nothing of the kind, files.
func completeFileOrObject(o *placeOptions, parts *partOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		directory, _, _ := strings.Cut(typed, "/")
		if s, err := os.Stat(directory); err == nil && s.IsDir() || strings.Count(typed, "/") != 1 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		slices.Sort(parts.namespaces) // cobra reads the flags twice, so that a namespace is there twice
		namespaces := slices.Compact(parts.namespaces)
		if len(namespaces) > 1 {
			return nil, cobra.ShellCompDirectiveDefault // an object is in one
		}
		admin, namespace := parts.admin(o, cmd.Flags()), strings.Join(namespaces, "")
		names, _ := completeObject(&admin, &namespace, false)(cmd, args, typed)
		return names, cobra.ShellCompDirectiveDefault
	}
}

// completeObject completes the name in TYPE/NAME, of objects that the history has: those that were deleted, where these are meant, or all. Where no server
// answers there is nothing to choose from, and of a history that is long to read, what has been read.
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
		h = h.located(ctx, 0)
		path := h.written()
		if deleted {
			path = h.trash()
		}
		var names []string
		begun := sync.OnceFunc(func() { time.AfterFunc(completionMore, cancel) })
		for page, err := range h.pages(ctx, path, 0) {
			if err != nil {
				break // of that there is nothing to say
			}
			begun()
			for _, r := range page {
				names = append(names, kind+"/"+r.Object.Name)
			}
		}
		slices.Sort(names)
		return withoutFiles(completed(slices.Compact(names), typed, false))
	}
}
