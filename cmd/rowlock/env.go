package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// environmentName is the environment variable of a flag: ROWLOCK_DATA_DIR for --data-dir.
func environmentName(flag string) string {
	return "ROWLOCK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setFromEnvironment sets each flag that is not on the command line from its variable. It ignores empty variables, and
// variables without a flag: a Kubernetes Service named rowlock adds such variables to every container.
func setFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed || f.Name == "help" {
			return
		}
		value, _ := lookup(environmentName(f.Name))
		if value == "" {
			return
		}
		if e := flags.Set(f.Name, value); e != nil {
			err = usagef("environment variable %s: %w", environmentName(f.Name), e)
		}
	})
	return err
}
