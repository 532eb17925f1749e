package main

import (
	"context"
	"log/slog"

	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/pki"
)

// identity has the parts that authenticate clients, and those that issue their credentials.
type identity struct {
	keys          *pki.TokenKeys
	authenticator *authn.Authenticator
	remote        *authn.Remote
	secrets       *lateSecrets
	issued        *authn.IssuedTokens
}

// newIdentity opens the keys of tokens. Remote authenticators run until ctx ends.
func (o *serveOptions) newIdentity(ctx context.Context, logger *slog.Logger, store resources.Reader, rows *resources.Rows, certificates *pki.PKI) (*identity, error) {
	keys, err := certificates.TokenKeys(o.tokens.keyOptions())
	if err != nil {
		return nil, err
	}
	i := &identity{keys: keys, secrets: &lateSecrets{}, issued: authn.NewIssuedTokens(rows, nil)}
	remote := o.authentication.RemoteOptions
	remote.Audiences, remote.Issuers, remote.Store, remote.Logger = o.tokens.audiences, o.tokens.issuers, store, logger
	remote.ServerID, remote.AnonymousFlag = resources.ServerID(), o.authentication.anonymousFlag.Changed
	if i.remote, err = authn.NewRemote(ctx, remote); err != nil {
		return nil, err
	}
	proxies, err := o.proxies.believed(certificates)
	if err != nil {
		return nil, err
	}
	i.authenticator, err = authn.New(authn.Options{ClientCAs: certificates.ClientCAs, FrontProxies: proxies, TokenFile: o.tokenFile, Logger: logger, Audiences: o.tokens.audiences, Remote: i.remote, Issued: i.issued,
		Anonymous:       o.authentication.allowsAnonymous(i.remote.Anonymous, o.authorization.allowsAnonymous())(""), // the path of no request
		ServiceAccounts: &authn.ServiceAccounts{NoLookup: !o.tokens.lookup, Issuers: o.tokens.issuers, Keys: keys, Store: store, Secrets: i.secrets}})
	return i, err
}

// lateSecrets writes Secrets through the server, which is created after its authenticator.
type lateSecrets struct{ *server.Server }

// Secrets implements corev1.SecretsGetter.
func (l *lateSecrets) Secrets(namespace string) corev1.SecretInterface {
	return l.Server.Secrets(namespace)
}
