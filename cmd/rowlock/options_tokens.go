package main

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
)

// tokenOptions say who issues the tokens of ServiceAccounts, for those who verify them.
type tokenOptions struct {
	issuer   string
	jwksURI  string
	keyFiles []string
	// documents are filled in when it is known where the server listens.
	documents *tokenDocuments
}

// tokenDocuments is a server.OpenID.
type tokenDocuments struct {
	serviceaccount.OpenIDMetadataProvider
}

var _ server.OpenID = (*tokenDocuments)(nil)

func (o *tokenOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.issuer, "service-account-issuer", "",
		"`URL` of the issuer of ServiceAccount tokens, for /.well-known/openid-configuration; it begins with https://")
	flags.StringVar(&o.jwksURI, "service-account-jwks-uri", "", "`URL` of the issuer's keys (default: this server's /openid/v1/jwks)")
	flags.StringSliceVar(&o.keyFiles, "service-account-key-file", nil,
		"`file` with the issuer's keys in PEM, public or private; may be given several times; read once")
}

// openID returns the documents to be served, nil for none.
func (o *tokenOptions) openID() server.OpenID {
	if o.issuer == "" {
		return nil
	}
	o.documents = &tokenDocuments{}
	return o.documents
}

// complete checks the flags.
func (o *tokenOptions) complete() error {
	if o.issuer == "" {
		return nil
	}
	if len(o.keyFiles) == 0 {
		return usagef("--service-account-issuer needs --service-account-key-file")
	}
	// The address is only needed to say what is wrong with the rest.
	_, err := o.provider(net.JoinHostPort("localhost", "443"))
	return err
}

// fill makes the documents, for a server at an address.
func (o *tokenOptions) fill(n controlplane.Network) (err error) {
	if o.documents == nil {
		return nil
	}
	address := n.Address.String()
	if n.Address == nil {
		address = "localhost"
	}
	o.documents.OpenIDMetadataProvider, err = o.provider(net.JoinHostPort(address, strconv.Itoa(n.Port)))
	return err
}

func (o *tokenOptions) provider(address string) (serviceaccount.OpenIDMetadataProvider, error) {
	var keys []any
	for _, file := range o.keyFiles {
		found, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("--service-account-key-file: %w", err)
		}
		keys = append(keys, found...)
	}
	getter, err := serviceaccount.StaticPublicKeysGetter(keys)
	if err != nil {
		return nil, fmt.Errorf("--service-account-key-file: %w", err)
	}
	provider, err := serviceaccount.NewOpenIDMetadataProvider(o.issuer, o.jwksURI, address, getter)
	if err != nil {
		return nil, usagef("--service-account-issuer: %v", err)
	}
	return provider, nil
}
