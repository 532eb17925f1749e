// Package authn says who sent a request: by the client certificate of its connection, by a bearer token, or by what a proxy says.
//
//	authn.go            the kinds of credentials, in the order in which they are tried
//	certificates.go     client certificates, verified once per connection
//	connections.go      what is remembered about a connection
//	frontproxy.go       proxies that say on whose behalf they ask
//	tokenfile.go        tokens in a file
//	serviceaccounts.go  tokens of ServiceAccounts, which are good as long as what they are bound to is there
//	issued.go           tokens that an administrator gives to users
//	issued_latest.go    how they are looked for that another server has made
//	cache.go            what came of verifying such tokens
//	metrics.go          what is counted of all that
//	issuers.go          issuers of OpenID Connect, and how others take their place
//	remote.go           tokens of which others are asked: issuers of OpenID Connect, a webhook; and bootstrap tokens
//
// What a certificate or a token stands for is upstream's to say (k8s.io/apiserver/pkg/authentication); how often it has
// to be verified is decided here.
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
	// ClientCAs returns the authorities whose client certificates are accepted, another pool when they have changed.
	ClientCAs func() *x509.CertPool
	// FrontProxies are believed when they say on whose behalf they ask. Optional.
	FrontProxies *FrontProxies
	// TokenFile is a file in the form of kube-apiserver's --token-auth-file: lines of token,user,uid,"group1,group2".
	// It is read again when it changes. Optional.
	TokenFile string
	// Logger hears of that. Default: nobody does.
	Logger *slog.Logger
	// ServiceAccounts, when set, may use their tokens.
	ServiceAccounts *ServiceAccounts
	// Issued are tokens that an administrator has given to users. Optional.
	Issued *IssuedTokens
	// Audiences are the names under which tokens mean this server.
	Audiences []string
	// Remote is asked for what nobody here knows. Optional.
	Remote *Remote
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Authenticator says who sent a request. It is an authenticator.Request.
type Authenticator struct {
	all authenticator.Request
	// audiences are those by which tokens mean this server.
	audiences authenticator.Audiences
	counts    *counts
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
	// The first who knows the sender answers: a certificate goes before a token.
	var kinds []authenticator.Request
	if o.FrontProxies != nil {
		kinds = append(kinds, authenticator.WrapAudienceAgnosticRequest(o.Audiences, newFrontProxies(o.FrontProxies, o.Now)))
	}
	kinds = append(kinds, newCertificates(o.ClientCAs, o.Now, counts), bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	if o.Remote != nil {
		kinds = append(kinds, o.Remote)
	}
	return &Authenticator{group.NewAuthenticatedGroupAdder(union.New(kinds...)), o.Audiences, counts}, nil
}

// tokens are the kinds of tokens, in upstream's order. Those that it does not have are known by their form.
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
		kinds = append(kinds, newCachedTokens(group.NewTokenGroupAdder(tokens, []string{user.AllAuthenticated}), o.ServiceAccounts.Store, o.Now, counts))
	}
	return tokenunion.New(kinds...), nil
}

// User says who sent a request.
//
// It answers true with a user, who is then in the group system:authenticated; false without an error when the request
// carries no credentials; and false with an error when it carries only bad ones, which is to be answered with 401 even
// where anybody may read. The error is for the log: it says more than an anonymous client should be told.
func (a *Authenticator) User(r *http.Request) (user.Info, bool, error) {
	if len(a.audiences) > 0 {
		// Without them a webhook is not asked for whom a token was issued (WithAuthentication of kube-apiserver does the same).
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

// errInvalid is upstream's error of a token that nobody knows.
var errInvalid = errors.New("invalid bearer token")

// AuthenticateRequest implements authenticator.Request, for those who ask for tokens in the name of others (TokenReview). They are shown
// the error, which begins with that of the token that kube-apiserver has for itself, and asks for first.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := a.all.AuthenticateRequest(r)
	if err != nil {
		err = utilerrors.NewAggregate([]error{errInvalid, err})
	}
	return response, ok, err
}
