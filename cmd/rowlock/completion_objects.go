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
	// completionMore is how long it waits for more results after the first ones.
	completionMore = time.Second
)

// completeFileOrObject completes the object of restore --revision, which takes the place of a file name; without
// matching objects, it completes file names.
func completeFileOrObject(o *placeOptions, parts *partOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		directory, _, _ := strings.Cut(typed, "/")
		if s, err := os.Stat(directory); err == nil && s.IsDir() || strings.Count(typed, "/") != 1 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		slices.Sort(parts.namespaces) // cobra parses the flags twice, so that each namespace occurs twice
		namespaces := slices.Compact(parts.namespaces)
		if len(namespaces) > 1 {
			return nil, cobra.ShellCompDirectiveDefault // an object is in one namespace
		}
		admin, namespace := parts.admin(o, cmd.Flags()), strings.Join(namespaces, "")
		names, _ := completeObject(&admin, &namespace, false)(cmd, args, typed)
		return names, cobra.ShellCompDirectiveDefault
	}
}

// completeObject completes the name in TYPE/NAME with objects of the history: deleted ones, if deleted is set, or all. Without a server there are
// no candidates. Of a history that takes long to read, it uses the part that it has read.
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
				break // completion reports no errors
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
