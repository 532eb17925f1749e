package main

import (
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/apis/apiserver"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/rowlock/rowlock/server/authn"
)

// authenticationOptions configure remote authenticators of tokens. The flags are kube-apiserver's.
type authenticationOptions struct {
	authn.RemoteOptions

	issuer, client, caFile        string
	usernameClaim, usernamePrefix string
	groupsClaim, groupsPrefix     string
	required                      map[string]string
	flags                         *pflag.FlagSet
	// anonymousFlag is --anonymous-auth, which a configuration file can replace.
	anonymousFlag *pflag.Flag
}

func (o *authenticationOptions) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	flags.StringVar(&o.ConfigFile, "authentication-config", "",
		"`file` with an AuthenticationConfiguration: accepted issuers of OpenID Connect tokens, and the paths that anonymous clients may request; reloaded when it changes")
	flags.StringVar(&o.issuer, "oidc-issuer-url", "", "`URL` of one issuer of OpenID Connect tokens, instead of --authentication-config")
	flags.StringVar(&o.client, "oidc-client-id", "", "client `ID` of this server at that issuer")
	flags.StringVar(&o.caFile, "oidc-ca-file", "", "`file` with the certificate authorities of that issuer (default: the system's)")
	flags.StringVar(&o.usernameClaim, "oidc-username-claim", "sub", "`claim` with the name of the user")
	flags.StringVar(&o.usernamePrefix, "oidc-username-prefix", "", "prefix of user names (default: the issuer and #, except for e-mail addresses); - for none")
	flags.StringVar(&o.groupsClaim, "oidc-groups-claim", "", "`claim` with the groups of the user")
	flags.StringVar(&o.groupsPrefix, "oidc-groups-prefix", "", "prefix of group names")
	flags.StringSliceVar(&o.SigningAlgorithms, "oidc-signing-algs", []string{"RS256"}, "accepted signing `algorithms`")
	flags.Var(cliflag.NewMapStringStringNoSplit(&o.required), "oidc-required-claim", "`claim=value` that a token must contain; may be given several times")
	flags.StringVar(&o.WebhookConfigFile, "authentication-token-webhook-config-file", "",
		"kubeconfig `file` of a server that reviews tokens (TokenReview) which this server does not know")
	flags.StringVar(&o.WebhookVersion, "authentication-token-webhook-version", "v1beta1", "`version` of the TokenReviews that it gets: v1 or v1beta1")
	flags.DurationVar(&o.WebhookCacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long its answers are cached; 0: it is called for each request")
	flags.BoolVar(&o.Bootstrap, "enable-bootstrap-token-auth", false,
		"accept the tokens of Secrets of type bootstrap.kubernetes.io/token in kube-system, with which nodes join")
}

// allowsAnonymous tells whether anonymous requests for a path are allowed. If the file configures that, it replaces flag, the value of
// --anonymous-auth.
func (o *authenticationOptions) allowsAnonymous(file func(path string) (allowed, said bool), flag bool) func(path string) bool {
	if _, said := file(""); !said {
		return func(string) bool { return flag }
	}
	return func(path string) bool {
		allowed, _ := file(path)
		return allowed
	}
}

// complete validates the flags, and derives an issuer from them.
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
