// Package authn says who sent a request: by the client certificate of its connection, or by a bearer token.
//
//	authn.go         the kinds of credentials, in the order in which they are tried
//	certificates.go  client certificates, verified once per connection
//
// What a certificate or a token stands for is upstream's to say (k8s.io/apiserver/pkg/authentication); how often it has
// to be verified is decided here.
package authn

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Options say which credentials are accepted.
type Options struct {
	// ClientCAs returns the authorities whose client certificates are accepted, another pool when they have changed.
	ClientCAs func() *x509.CertPool
	// TokenFile is a file in the form of kube-apiserver's --token-auth-file: lines of token,user,uid,"group1,group2".
	// It is read once. Optional.
	TokenFile string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// New returns a function that says who sent a request.
//
// It answers true with a user, who is then in the group system:authenticated; false without an error when the request
// carries no credentials; and false with an error when it carries only bad ones, which is to be answered with 401 even
// where anybody may read. The error is for the log: it says more than an anonymous client should be told.
//
// New fails when the token file cannot be read.
func New(o Options) (func(*http.Request) (user.Info, bool, error), error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	tokens := tokenfile.New(nil)
	if o.TokenFile != "" {
		var err error
		if tokens, err = tokenfile.NewCSV(o.TokenFile); err != nil {
			return nil, fmt.Errorf("token file %s: %w", o.TokenFile, err)
		}
	}
	// The first who knows the sender answers: a certificate goes before a token.
	all := group.NewAuthenticatedGroupAdder(union.New(
		newCertificates(o.ClientCAs, o.Now),
		bearertoken.New(tokens),
		websocket.NewProtocolAuthenticator(tokens),
	))
	return func(r *http.Request) (user.Info, bool, error) { return ask(all, r) }, nil
}

func ask(who authenticator.Request, r *http.Request) (user.Info, bool, error) {
	response, ok, err := who.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, err
	}
	return response.User, true, nil
}
