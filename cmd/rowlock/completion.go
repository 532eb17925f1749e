package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/rowlock/rowlock/resources/admission"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// flagValues returns a function for the possible values of a flag, which is called when a shell completes the flag;
// nil: any value is possible.
func flagValues(f *pflag.Flag) func() []string {
	if c, ok := f.Value.(*choice); ok {
		return func() []string { return c.of }
	}
	switch f.Name {
	case "audit-log-format":
		return func() []string { return auditing.Formats }
	case "audit-log-mode", "audit-webhook-mode":
		return func() []string { return auditing.Modes }
	case "authentication-token-webhook-version", "authorization-webhook-version":
		return func() []string { return []string{"v1", "v1beta1"} }
	case "authorization-mode":
		return func() []string { return modes.AuthorizationModeChoices }
	case "controllers":
		return func() []string { return append([]string{"*"}, controllers.Names()...) }
	case "disable-admission-plugins", "enable-admission-plugins":
		return admission.Names
	case "tls-cipher-suites":
		return cliflag.TLSCipherPossibleValues
	case "tls-min-version":
		return func() []string { return []string{"VersionTLS12", "VersionTLS13"} }
	}
	return nil
}

// addValueCompletion lets shells complete the values of flags of a command and of its subcommands, and file names only
// where an argument is a file.
func addValueCompletion(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !strings.Contains(cmd.Use, "FILE") && !strings.Contains(cmd.Use, "DIR") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values := flagValues(f)
		if what, _ := pflag.UnquoteUsage(f); what == "directory" {
			_ = cmd.MarkFlagDirname(f.Name) // the flag exists
		} else if _, known := cmd.GetFlagCompletionFunc(f.Name); values != nil && !known {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return withoutFiles(completed(values(), typed, f.Value.Type() == "stringSlice"))
			})
		}
	})
	for _, c := range cmd.Commands() {
		addValueCompletion(c)
	}
}

func withoutFiles(values []string) ([]string, cobra.ShellCompDirective) {
	return values, cobra.ShellCompDirectiveNoFileComp
}

// completed returns the values that complete what was typed; in a list, those after the last comma, without those that are in it already.
func completed(values []string, typed string, list bool) (out []string) {
	before := ""
	if i := strings.LastIndexByte(typed, ','); list && i >= 0 {
		before = typed[:i+1]
	}
	given := strings.Split(before, ",")
	for _, v := range values {
		if strings.HasPrefix(before+v, typed) && !slices.Contains(given, v) {
			out = append(out, before+v)
		}
	}
	return out
}
