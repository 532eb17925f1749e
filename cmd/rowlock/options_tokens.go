package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/pki"
)

// tokenOptions say who issues the tokens of ServiceAccounts, and for which audiences.
type tokenOptions struct {
	issuers        []string
	audiences      []string
	jwksURI        string
	signingKeyFile string
	keyFiles       []string
	// onlyKeyFiles: if there are keyFiles, the signing key verifies only if it is among them.
	onlyKeyFiles  bool
	maxExpiration time.Duration
	extend        bool
	// lookup: a token of a Secret is valid only as long as the Secret exists.
	lookup bool
	// documents are filled in when the server's address is known.
	documents *tokenDocuments
}

// tokenDocuments is a server.OpenID. It publishes the keys that are in force.
type tokenDocuments struct {
	serviceaccount.OpenIDMetadataProvider
	keys *pki.TokenKeys
}

var _ server.OpenID = (*tokenDocuments)(nil)

// GetConfigJSON implements server.OpenID.
func (d *tokenDocuments) GetConfigJSON() ([]byte, int) {
	d.keys.Refresh()
	return d.OpenIDMetadataProvider.GetConfigJSON()
}

// GetKeysetJSON implements server.OpenID.
func (d *tokenDocuments) GetKeysetJSON() ([]byte, int) {
	d.keys.Refresh()
	return d.OpenIDMetadataProvider.GetKeysetJSON()
}

// defaultIssuer is the usual issuer of clusters.
const defaultIssuer = "https://kubernetes.default.svc.cluster.local"

func (o *tokenOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.issuers, "service-account-issuer", []string{defaultIssuer},
		"`issuer` of ServiceAccount tokens; may be given several times: new tokens have the first, and all are accepted. The first is "+
			"published under /.well-known/openid-configuration if it is an https:// URL")
	flags.StringVar(&o.jwksURI, "service-account-jwks-uri", "", "`URL` of the issuer's keys (default: /openid/v1/jwks of this server)")
	flags.StringVar(&o.signingKeyFile, "service-account-signing-key-file", "",
		"`file` with the private key in PEM that signs ServiceAccount tokens; read once (default: the first key of pki/sa.key, which is generated)")
	flags.StringArrayVar(&o.keyFiles, "service-account-key-file", nil,
		"`file` with additional keys in PEM, public or private, that verify ServiceAccount tokens; may be given several times; read once")
	flags.StringSliceVar(&o.audiences, "api-audiences", nil, "audiences (`names`) of ServiceAccount tokens that this server accepts (default: the issuers)")
	flags.DurationVar(&o.maxExpiration, "service-account-max-token-expiration", 0, "longest lifetime of a ServiceAccount token; 0: no limit")
	flags.BoolVar(&o.lookup, "service-account-lookup", true, "accept the token of a Secret only while the Secret and its ServiceAccount exist")
	flags.BoolVar(&o.extend, "service-account-extend-token-expiration", true,
		"extend tokens that are injected into Pods to a year, for clients that do not reload them")
}

// complete validates the flags by kube-apiserver's rules.
func (o *tokenOptions) complete() error {
	for i, issuer := range o.issuers {
		switch {
		case issuer == "":
			return usagef("--service-account-issuer must not be empty")
		case slices.Contains(o.issuers[:i], issuer):
			return usagef("--service-account-issuer %q is given twice", issuer)
		case strings.Contains(issuer, ":"):
			if _, err := url.Parse(issuer); err != nil {
				return usagef("--service-account-issuer %q has a colon and is not a URL: %v", issuer, err)
			}
		}
	}
	if len(o.issuers) == 0 {
		o.issuers = []string{defaultIssuer}
	}
	if u, err := url.Parse(o.jwksURI); o.jwksURI != "" && (err != nil || u.Scheme != "https") {
		return usagef("--service-account-jwks-uri %q is not a URL that begins with https://", o.jwksURI)
	}
	if o.maxExpiration != 0 && (o.maxExpiration < time.Hour || o.maxExpiration > (1<<32)*time.Second) {
		return usagef("--service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
	}
	if len(o.audiences) == 0 {
		o.audiences = o.issuers
	}
	return nil
}

// keyOptions say where the keys are.
func (o *tokenOptions) keyOptions() pki.TokenKeyOptions {
	return pki.TokenKeyOptions{Issuer: o.issuers[0], SigningKeyFile: o.signingKeyFile, KeyFiles: o.keyFiles, OnlyKeyFiles: o.onlyKeyFiles}
}

// issued says how tokens are created.
func (o *tokenOptions) issued(keys *pki.TokenKeys) *builtin.Tokens {
	return &builtin.Tokens{Generator: keys, MaxExpiration: o.maxExpiration, ExtendExpiration: o.extend}
}

// openID returns the discovery documents of the issuer. It returns nil if the issuer's URL does not allow discovery, or if no URL can be made of the
// external host, as in kube-apiserver.
func (o *tokenOptions) openID(keys *pki.TokenKeys, host string, logger *slog.Logger) server.OpenID {
	// The port is a placeholder: fill sets the actual one.
	if _, err := o.provider(keys, host, 443); err != nil {
		level := slog.LevelInfo // an issuer that is no URL is meant not to be published
		if _, other := o.provider(keys, "", 443); other == nil {
			level = slog.LevelWarn
		}
		logger.Log(context.Background(), level, "the issuer of ServiceAccount tokens and its keys are not published", "error", err)
		return nil
	}
	o.documents = &tokenDocuments{keys: keys}
	return o.documents
}

// fill creates the documents for a server with an address, or with the host of openID if there is one.
func (o *tokenOptions) fill(n controlplane.Network, host string) (err error) {
	if o.documents == nil {
		return nil
	}
	if host == "" && n.Address != nil {
		host = n.Address.String()
	}
	o.documents.OpenIDMetadataProvider, err = o.provider(o.documents.keys, host, n.Port)
	return err
}

func (o *tokenOptions) provider(keys *pki.TokenKeys, host string, port int) (serviceaccount.OpenIDMetadataProvider, error) {
	return serviceaccount.NewOpenIDMetadataProvider(o.issuers[0], o.jwksURI, server.ExternalAddress(cmp.Or(host, "localhost"), strconv.Itoa(port)), keys)
}
