package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The text of a flag names only flags that the same command has.
func TestTextsNameFlagsOfTheirCommand(t *testing.T) {
	named := regexp.MustCompile(`--[a-z][a-z0-9-]*[a-z0-9]`)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, name := range named.FindAllString(f.Usage, -1) {
				if cmd.Flags().Lookup(strings.TrimPrefix(name, "--")) == nil {
					t.Errorf("%s: the text of --%s names %s", cmd.CommandPath(), f.Name, name)
				}
			}
		})
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(newRootCommand())
}
