// Package authn authenticates requests: by the client certificate of the connection, by a bearer token, or by the headers of a front proxy.
//
//	authn.go            the kinds of credentials, in the order in which they are tried
//	certificates.go     client certificates, verified once per connection
//	connections.go      a cache with an entry per connection
//	frontproxy.go       proxies that send requests on behalf of users
//	tokenfile.go        tokens in a file
//	serviceaccounts.go  tokens of ServiceAccounts, which are valid while the objects exist that they are bound to
//	issued.go           tokens that an administrator issues to users
//	issued_latest.go    reading tokens that another server has issued
//	cache.go            a cache of verified ServiceAccount tokens
//	foreign.go          tokens of other issuers
//	metrics.go          the metrics of the above
//	issuers.go          OpenID Connect issuers, and how a changed configuration replaces them
//	remote.go           authenticators outside this server: OpenID Connect issuers, a webhook; and bootstrap tokens
//
// Upstream's code (k8s.io/apiserver/pkg/authentication) decides which user a certificate or a token stands for; this
// package decides how often it has to be verified.
package authn

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// Options say which credentials are accepted.
type Options struct {
	// ClientCAs returns the authorities whose client certificates are accepted; it returns another pool when they have changed.
	ClientCAs func() *x509.CertPool
	// FrontProxies are the trusted proxies that send requests on behalf of users. Optional.
	FrontProxies *FrontProxies
	// TokenFile is a file in the form of kube-apiserver's --token-auth-file: lines of token,user,uid,"group1,group2".
	// It is read again when it changes. Optional.
	TokenFile string
	// Logger logs the reloads of the file. Default: they are not logged.
	Logger *slog.Logger
	// ServiceAccounts says which tokens of ServiceAccounts are accepted. Nil: none are.
	ServiceAccounts *ServiceAccounts
	// Issued are the tokens that an administrator has issued to users. Optional.
	Issued *IssuedTokens
	// Audiences are the token audiences that mean this server.
	Audiences []string
	// Remote is tried after all others. Optional.
	Remote *Remote
	// Anonymous says that a TokenReview of a blank token finds system:anonymous, as in kube-apiserver where requests
	// without credentials are allowed for all paths. User returns no such user.
	Anonymous bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Authenticator authenticates requests. It is an authenticator.Request.
type Authenticator struct {
	all authenticator.Request
	// audiences are the token audiences that mean this server.
	audiences authenticator.Audiences
	counts    *counts
	anonymous bool
}

// New returns an Authenticator. It fails when the token file cannot be read.
func New(o Options) (*Authenticator, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	counts := newCounts()
	tokens, err := o.tokens(counts)
	if err != nil {
		return nil, err
	}
	// The first authenticator that accepts the request decides: certificates come before tokens.
	var kinds []authenticator.Request
	if o.FrontProxies != nil {
		kinds = append(kinds, authenticator.WrapAudienceAgnosticRequest(o.Audiences, newFrontProxies(o.FrontProxies, o.Now)))
	}
	kinds = append(kinds, newCertificates(o.ClientCAs, o.Now, counts), bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	return &Authenticator{group.NewAuthenticatedGroupAdder(union.New(kinds...)), o.Audiences, counts, o.Anonymous}, nil
}

// tokens returns the token authenticators in upstream's order. Tokens that upstream does not have are recognised by their form.
func (o *Options) tokens(counts *counts) (authenticator.Token, error) {
	var kinds []authenticator.Token
	if o.TokenFile != "" {
		file, err := newFileTokens(o.TokenFile, o.Now, o.Logger)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, authenticator.WrapAudienceAgnosticToken(o.Audiences, file))
	}
	if o.Issued != nil {
		kinds = append(kinds, authenticator.WrapAudienceAgnosticToken(o.Audiences, o.Issued))
	}
	if o.ServiceAccounts != nil {
		tokens, err := o.ServiceAccounts.tokens(o.Audiences)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, newCachedTokens(group.NewTokenGroupAdder(tokens, []string{user.AllAuthenticated}), o.ServiceAccounts.Keys, o.ServiceAccounts.Store, o.Now, counts))
	}
	if o.Remote != nil {
		kinds = append(kinds, o.Remote)
	}
	return tokenunion.New(kinds...), nil
}

// User authenticates a request.
//
// It returns true with a user, who is then in the group system:authenticated; false without an error when the request
// carries no credentials; and false with an error when it carries only bad ones. The answer is then 401, even where
// anonymous requests are allowed. The error is for the log: it says more than an anonymous client should learn.
func (a *Authenticator) User(r *http.Request) (user.Info, bool, error) {
	if len(a.audiences) > 0 {
		// Without audiences in the context, the TokenReview for a webhook has none (kube-apiserver's WithAuthentication does the same).
		if ctx := requestctx.WithAudiences(r.Context(), a.audiences); ctx != r.Context() {
			r = r.WithContext(ctx)
		}
	}
	response, ok, err := a.all.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, err
	}
	if said := response.Audiences; len(a.audiences) > 0 && len(said) > 0 && len(a.audiences.Intersect(said)) == 0 {
		return nil, false, fmt.Errorf("the token is for %q, and this server is %q", said, a.audiences)
	}
	return response.User, true, nil
}

// errInvalid is upstream's error for a token that no authenticator accepts.
var errInvalid = errors.New("invalid bearer token")

// AuthenticateRequest implements authenticator.Request for TokenReview. Its clients see the error, which begins with the error of the
// loopback token that kube-apiserver has for itself, and tries first.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := a.all.AuthenticateRequest(r)
	if err != nil {
		err = utilerrors.NewAggregate([]error{errInvalid, err})
	}
	if !ok && err == nil && a.anonymous {
		wanted, _ := authenticator.AudiencesFrom(r.Context())
		return &authenticator.Response{Audiences: wanted, User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}}, true, nil
	}
	return response, ok, err
}
