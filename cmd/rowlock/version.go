package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/resources/upstream"
)

// version is the version that the build sets (-ldflags "-X main.version=…").
var version string

// ownVersion returns the version from the build, or from 'go install', or "(devel)".
func ownVersion() string {
	var module string
	if build, ok := debug.ReadBuildInfo(); ok {
		module = build.Main.Version
	}
	return cmp.Or(version, module, "(devel)")
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Rowlock, Kubernetes and Go",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Rowlock %s\nKubernetes %s\nGo %s %s/%s\n",
				ownVersion(), upstream.Release, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
