package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authz"
)

// authorizationOptions configure the authorizers. The flags are kube-apiserver's.
type authorizationOptions struct {
	modes                          []string
	anonymous                      bool
	configFile, policyFile         string
	webhookFile, webhookVersion    string
	authorizedTTL, unauthorizedTTL time.Duration
	flags                          *pflag.FlagSet
}

func (o *authorizationOptions) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	flags.StringSliceVar(&o.modes, "authorization-mode", []string{modes.ModeNode, modes.ModeRBAC},
		"authorization `modes`, in their order: "+strings.Join(modes.AuthorizationModeChoices, ", ")+
			"; the first that allows or denies decides. Members of system:masters may do everything")
	flags.StringVar(&o.configFile, "authorization-config", "",
		"`file` with an AuthorizationConfiguration instead of --authorization-mode: any order of authorizers, and webhooks with conditions; reloaded when it changes")
	flags.StringVar(&o.policyFile, "authorization-policy-file", "", "`file` with the policies of mode ABAC, one JSON object per line; read once")
	flags.StringVar(&o.webhookFile, "authorization-webhook-config-file", "",
		"kubeconfig `file` of a server that answers SubjectAccessReviews, for mode Webhook")
	flags.StringVar(&o.webhookVersion, "authorization-webhook-version", "v1beta1", "`version` of the SubjectAccessReviews that it gets: v1 or v1beta1")
	flags.DurationVar(&o.authorizedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long its positive answers are cached")
	flags.DurationVar(&o.unauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long its negative answers are cached")
	flags.BoolVar(&o.anonymous, "anonymous-auth", true,
		"serve clients without credentials as the user system:anonymous of the group system:unauthenticated; never with AlwaysAllow")
}

// complete refuses what kube-apiserver refuses, with its messages. It reads the feature gates.
func (o *authorizationOptions) complete() error {
	var errs []error
	if o.configFile != "" {
		errs = o.checkConfig()
	} else {
		errs = o.checkModes()
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// checkConfig validates --authorization-config, which replaces other flags and their defaults.
func (o *authorizationOptions) checkConfig() []error {
	for _, name := range []string{"mode", "webhook-config-file", "webhook-version", "webhook-cache-authorized-ttl", "webhook-cache-unauthorized-ttl"} {
		if o.flags.Changed("authorization-" + name) {
			return []error{errors.New("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")}
		}
	}
	o.modes = nil
	if err := authz.CheckFile(o.configFile); err != nil {
		return []error{err}
	}
	return nil
}

func (o *authorizationOptions) checkModes() (errs []error) {
	if len(o.modes) == 0 {
		errs = append(errs, errors.New("at least one authorization-mode must be passed"))
	}
	unique := true
	for i, mode := range o.modes {
		if !modes.IsValidAuthorizationMode(mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q is not a valid mode", mode))
		}
		if mode == modes.ModeABAC && o.policyFile == "" {
			errs = append(errs, errors.New("authorization-mode ABAC's authorization policy file not passed"))
		}
		if mode == modes.ModeWebhook && o.webhookFile == "" {
			errs = append(errs, errors.New("authorization-mode Webhook's authorization config file not passed"))
		}
		unique = unique && !slices.Contains(o.modes[:i], mode)
	}
	if o.policyFile != "" && !slices.Contains(o.modes, modes.ModeABAC) {
		errs = append(errs, errors.New("cannot specify --authorization-policy-file without mode ABAC"))
	}
	if o.webhookFile != "" && !slices.Contains(o.modes, modes.ModeWebhook) {
		errs = append(errs, errors.New("cannot specify --authorization-webhook-config-file without mode Webhook"))
	}
	if !unique {
		errs = append(errs, fmt.Errorf("authorization-mode %q has mode specified more than once", o.modes))
	}
	return errs
}

// webhook returns the configuration of the webhook from the flags, as kube-apiserver derives it.
func (o *authorizationOptions) webhook() *apiserver.WebhookConfiguration {
	return &apiserver.WebhookConfiguration{
		AuthorizedTTL: metav1.Duration{Duration: o.authorizedTTL}, CacheAuthorizedRequests: o.authorizedTTL != 0,
		UnauthorizedTTL: metav1.Duration{Duration: o.unauthorizedTTL}, CacheUnauthorizedRequests: o.unauthorizedTTL != 0,
		Timeout: metav1.Duration{Duration: 30 * time.Second}, FailurePolicy: apiserver.FailurePolicyNoOpinion,
		SubjectAccessReviewVersion: o.webhookVersion,
		ConnectionInfo:             apiserver.WebhookConnectionInfo{Type: apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &o.webhookFile},
	}
}

// authorizers returns the chain of authorizers.
func (o *authorizationOptions) authorizers(store resources.View, logger *slog.Logger) (*authz.Authorizers, error) {
	return authz.New(authz.Options{Store: store, Logger: logger, Modes: o.modes, File: o.configFile, Webhook: o.webhook(), PolicyFile: o.policyFile, ServerID: resources.ServerID()})
}

// mayAskRBAC tells whether RBAC may be one of the authorizers, before the configuration file is read.
func (o *authorizationOptions) mayAskRBAC() bool {
	return o.configFile != "" || slices.Contains(o.modes, modes.ModeRBAC)
}

// allowsAnonymous tells whether the flags allow anonymous requests. With --authorization-mode=AlwaysAllow they are not allowed, as in
// kube-apiserver.
func (o *authorizationOptions) allowsAnonymous() bool {
	return o.anonymous && !slices.Contains(o.modes, modes.ModeAlwaysAllow)
}
