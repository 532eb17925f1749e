package main

import (
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/apis/apiserver"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/rowlock/rowlock/server/authn"
)

// authenticationOptions say who else is asked for who a token stands for. The flags are kube-apiserver's.
type authenticationOptions struct {
	authn.RemoteOptions

	issuer, client, caFile        string
	usernameClaim, usernamePrefix string
	groupsClaim, groupsPrefix     string
	required                      map[string]string
	flags                         *pflag.FlagSet
	// anonymousFlag is --anonymous-auth, which a file takes the place of.
	anonymousFlag *pflag.Flag
}

func (o *authenticationOptions) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	flags.StringVar(&o.ConfigFile, "authentication-config", "",
		"`file` with an AuthenticationConfiguration: issuers of OpenID Connect whose tokens are accepted, and which paths clients without credentials may ask for; read again when it changes")
	flags.StringVar(&o.issuer, "oidc-issuer-url", "", "`URL` of one issuer of OpenID Connect whose tokens are accepted, instead of a file")
	flags.StringVar(&o.client, "oidc-client-id", "", "`name` under which that issuer knows this server")
	flags.StringVar(&o.caFile, "oidc-ca-file", "", "`file` with the authorities of that issuer (default: those of the machine)")
	flags.StringVar(&o.usernameClaim, "oidc-username-claim", "sub", "`claim` that has the user's name")
	flags.StringVar(&o.usernamePrefix, "oidc-username-prefix", "", "what comes before the names of users (default: the issuer and #, but before e-mail addresses); - for nothing")
	flags.StringVar(&o.groupsClaim, "oidc-groups-claim", "", "`claim` that has the user's groups")
	flags.StringVar(&o.groupsPrefix, "oidc-groups-prefix", "", "what comes before the names of groups")
	flags.StringSliceVar(&o.SigningAlgorithms, "oidc-signing-algs", []string{"RS256"}, "`algorithms` by which tokens may be signed")
	flags.Var(cliflag.NewMapStringStringNoSplit(&o.required), "oidc-required-claim", "`claim=value` that a token has to have; may be given several times")
	flags.StringVar(&o.WebhookConfigFile, "authentication-token-webhook-config-file", "",
		"`file` with a kubeconfig of a server that answers TokenReviews for tokens which nobody here knows")
	flags.StringVar(&o.WebhookVersion, "authentication-token-webhook-version", "v1beta1", "`version` of TokenReview that it takes: v1 or v1beta1")
	flags.DurationVar(&o.WebhookCacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long its answers are believed")
	flags.BoolVar(&o.Bootstrap, "enable-bootstrap-token-auth", false,
		"accept the tokens in Secrets of type bootstrap.kubernetes.io/token in kube-system, with which machines join")
}

// allowsAnonymous tells whether clients without credentials may ask for a path. What the file says of them is instead of flag, which is what
// --anonymous-auth says.
func (o *authenticationOptions) allowsAnonymous(file func(path string) (allowed, said bool), flag bool) func(path string) bool {
	if _, said := file(""); !said {
		return func(string) bool { return flag }
	}
	return func(path string) bool {
		allowed, _ := file(path)
		return allowed
	}
}

// complete checks the flags, and makes an issuer of them.
func (o *authenticationOptions) complete() error {
	given := false
	for _, name := range []string{"issuer-url", "client-id", "ca-file", "username-claim", "username-prefix", "groups-claim", "groups-prefix", "signing-algs", "required-claim"} {
		given = given || o.flags.Changed("oidc-"+name)
	}
	switch {
	case !given:
		return nil
	case o.ConfigFile != "":
		return usagef("--authentication-config and --oidc-* flags are mutually exclusive")
	case o.issuer == "" || o.client == "":
		return usagef("--oidc-issuer-url and --oidc-client-id must be specified together when any --oidc-* flags are set")
	}
	prefix := o.usernamePrefix
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && o.usernameClaim != "email":
		prefix = o.issuer + "#"
	}
	o.JWT = &apiserver.JWTAuthenticator{Issuer: apiserver.Issuer{URL: o.issuer, Audiences: []string{o.client}},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Prefix: &prefix, Claim: o.usernameClaim}}}
	if o.groupsClaim != "" {
		o.JWT.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Prefix: &o.groupsPrefix, Claim: o.groupsClaim}
	}
	for claim, value := range o.required {
		o.JWT.ClaimValidationRules = append(o.JWT.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: claim, RequiredValue: value})
	}
	if o.caFile != "" {
		authorities, err := os.ReadFile(o.caFile)
		if err != nil {
			return usagef("--oidc-ca-file: %w", err)
		}
		o.JWT.Issuer.CertificateAuthority = string(authorities)
	}
	return nil
}
