package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authz"
)

// authorizationOptions say who decides what users may do.
type authorizationOptions struct {
	modes     []string
	anonymous bool
}

func (o *authorizationOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.modes, "authorization-mode", []string{modes.ModeNode, modes.ModeRBAC},
		"who decides what users may do, in this order: `modes` out of "+strings.Join(served, ", ")+
			"; the first that allows or denies decides, and members of system:masters may do everything")
	flags.BoolVar(&o.anonymous, "anonymous-auth", true,
		"let clients without credentials do what system:anonymous and system:unauthenticated may; never with AlwaysAllow")
}

// served are kube-apiserver's modes as far as there are.
var served = []string{modes.ModeAlwaysAllow, modes.ModeAlwaysDeny, modes.ModeNode, modes.ModeRBAC}

// complete refuses what kube-apiserver refuses, in its words.
func (o *authorizationOptions) complete() error {
	var errs []error
	if len(o.modes) == 0 {
		errs = append(errs, fmt.Errorf("at least one authorization-mode must be passed"))
	}
	for i, mode := range o.modes {
		if !slices.Contains(served, mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q is not a valid mode", mode))
		}
		if slices.Contains(o.modes[:i], mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q has mode specified more than once", o.modes))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// authorizers returns those who decide.
func (o *authorizationOptions) authorizers(store resources.View, logger *slog.Logger) (*authz.Authorizers, error) {
	return authz.New(authz.Options{Store: store, Logger: logger, Modes: o.modes})
}

// strangers tells whether clients without credentials may ask for a path; nil: for nothing but how the server is. Where
// everybody may do everything they are not let in, as by kube-apiserver.
func (o *authorizationOptions) strangers() func(path string) bool {
	if slices.Contains(o.modes, modes.ModeAlwaysAllow) {
		return nil
	}
	return func(string) bool { return o.anonymous }
}
