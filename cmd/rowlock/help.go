package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is the width to which the descriptions of flags are wrapped.
const helpColumns = 100

// section is a group of a command's flags with a title of its own.
type section struct {
	title string
	flags *pflag.FlagSet
}

// addSections adds flags to a command, and a help text that shows them section by section.
func addSections(cmd *cobra.Command, sections []section) {
	for _, s := range sections {
		cmd.Flags().AddFlagSet(s.flags)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		printUsage(cmd.OutOrStdout(), cmd, sections)
		return nil
	})
}

func printUsage(w io.Writer, cmd *cobra.Command, sections []section) {
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, s := range sections {
		fmt.Fprintf(w, "\n%s:\n%s", s.title, s.flags.FlagUsagesWrapped(helpColumns))
	}
}
