package authn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	certutil "k8s.io/client-go/util/cert"

	"github.com/rowlock/rowlock/resources/bounded"
)

// issuers verify tokens of issuers of OpenID Connect. Upstream's authenticators do; here is decided when those of a changed
// configuration take the place of the present ones. Upstream makes all anew, and the present ones are believed until all of these answer.
// Here nothing that was taken back waits for that. An issuer that was taken out goes when the file is read, and one that was changed some
// seconds later at the most: so long its users have, so that they need not be refused while the keys are fetched. One of which nothing was
// changed stays, whether it answers or not. What was believed of tokens is forgotten with each of these steps.
type issuers struct {
	// lifetime ends what fetches keys.
	lifetime   context.Context
	options    *RemoteOptions
	algorithms []string
	present    atomic.Pointer[trusted]
}

// trusted are the issuers of a configuration.
type trusted struct {
	issuers []*trustedIssuer
	tokens  authenticator.Token
}

type trustedIssuer struct {
	oidc.AuthenticatorTokenWithHealthCheck

	config apiserver.JWTAuthenticator
	stop   context.CancelFunc
}

const (
	// answersInterval is how often is looked whether new issuers answer, and answersTimeout for how long. With configInterval it is less
	// than the ten seconds after which the old rules of a changed issuer must not be in force any more; and as it is less than
	// configInterval, the next change is seen in time.
	answersInterval = 100 * time.Millisecond
	answersTimeout  = 3 * time.Second
	// retirement is for how long an issuer that was taken out may still be in use by requests that began before.
	retirement = time.Minute
)

// newIssuers does not wait until they answer.
func newIssuers(lifetime context.Context, o *RemoteOptions, algorithms []string, c *apiserver.AuthenticationConfiguration) (*issuers, error) {
	i := &issuers{lifetime: lifetime, options: o, algorithms: algorithms}
	first, _, err := i.of(c, nil)
	if err != nil {
		return nil, err
	}
	i.present.Store(first)
	return i, nil
}

// AuthenticateToken implements authenticator.Token.
func (i *issuers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return i.present.Load().tokens.AuthenticateToken(ctx, token)
}

// of makes the issuers of a configuration, but for those that are there. fresh are those that it has made.
func (i *issuers) of(c *apiserver.AuthenticationConfiguration, there []*trustedIssuer) (all *trusted, fresh []*trustedIssuer, err error) {
	var issuers []*trustedIssuer
	for _, config := range c.JWT {
		same := slices.IndexFunc(there, func(t *trustedIssuer) bool { return reflect.DeepEqual(t.config, config) })
		var one *trustedIssuer
		if same >= 0 {
			one = there[same]
		} else if one, err = i.issuer(config); err != nil {
			stop(fresh)
			return nil, nil, err
		} else {
			fresh = append(fresh, one)
		}
		issuers = append(issuers, one)
	}
	return i.trust(issuers), fresh, nil
}

// trust has issuers believed, of whose tokens nothing is known yet.
func (i *issuers) trust(issuers []*trustedIssuer) *trusted {
	var tokens []authenticator.Token
	for _, one := range issuers {
		tokens = append(tokens, one)
	}
	known := authenticator.WrapAudienceAgnosticToken(i.options.Audiences, tokenunion.NewFailOnError(tokens...))
	return &trusted{issuers, tokencache.New(known, true, remoteAge, 0)}
}

func (i *issuers) issuer(config apiserver.JWTAuthenticator) (*trustedIssuer, error) {
	o := oidc.Options{JWTAuthenticator: config, SupportedSigningAlgs: i.algorithms, DisallowedIssuers: i.options.Issuers, APIServerID: i.options.ServerID}
	if config.Issuer.EgressSelectorType == "" { // upstream refuses others, as nobody looks one up
		client, err := issuerClient(config.Issuer.CertificateAuthority)
		if err != nil {
			return nil, err
		}
		o.Client = client
	}
	ctx, cancel := context.WithCancel(i.lifetime)
	by, err := oidc.New(ctx, o)
	if err != nil {
		cancel()
		return nil, err
	}
	return &trustedIssuer{by, config, cancel}, nil
}

// issuerClient asks an issuer whose certificate is of one of these authorities, or, where there are none, of one of the system's. It is
// upstream's, with answers that are bounded.
func issuerClient(authorities string) (*http.Client, error) {
	secured := &tls.Config{}
	if authorities != "" {
		var err error
		if secured.RootCAs, err = certutil.NewPoolFromBytes([]byte(authorities)); err != nil {
			return nil, fmt.Errorf("the authorities of an issuer: %w", err)
		}
	}
	by := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: secured})
	return &http.Client{Transport: bounded.Answers(by), Timeout: 30 * time.Second}, nil
}

func stop(issuers []*trustedIssuer) {
	for _, one := range issuers {
		one.stop()
	}
}

// update has the issuers of a configuration take the place of the present ones, when those that are new or different answer, and after
// answersTimeout in any case. One that does not answer by then is believed when it does, as after a start.
//
// Errors: an issuer that cannot be made, with which all stays as it was, and the end of ctx.
func (i *issuers) update(ctx context.Context, c *apiserver.AuthenticationConfiguration) error {
	before := i.present.Load()
	next, fresh, err := i.of(c, before.issuers)
	if err != nil {
		return err
	}
	named := slices.DeleteFunc(slices.Clone(before.issuers), func(t *trustedIssuer) bool {
		return !slices.ContainsFunc(c.JWT, func(j apiserver.JWTAuthenticator) bool { return j.Issuer.URL == t.config.Issuer.URL })
	})
	if len(named) < len(before.issuers) {
		i.present.Store(i.trust(named))
	}
	var silent error
	answers, cancel := context.WithTimeout(ctx, answersTimeout)
	defer cancel()
	_ = wait.PollUntilContextCancel(answers, answersInterval, true, func(context.Context) (bool, error) { // its error is silent
		var errs []error
		for _, one := range fresh {
			errs = append(errs, one.HealthCheck())
		}
		silent = utilerrors.NewAggregate(errs)
		return silent == nil, nil
	})
	i.present.Store(next)
	time.AfterFunc(retirement, func() { i.retire(before.issuers) })
	if silent != nil {
		i.options.Logger.Warn("issuers do not answer: their tokens are refused until they do", "file", i.options.ConfigFile, "error", silent)
	}
	return ctx.Err()
}

// retire stops the issuers that are not among the present ones, and shows no metrics of those that are no issuers any more.
func (i *issuers) retire(issuers []*trustedIssuer) {
	present := i.present.Load().issuers
	for _, old := range issuers {
		if slices.Contains(present, old) {
			continue
		}
		old.stop()
		if !slices.ContainsFunc(present, func(t *trustedIssuer) bool { return t.config.Issuer.URL == old.config.Issuer.URL }) {
			oidc.DeleteJWKSFetchMetrics(old.config.Issuer.URL, i.options.ServerID)
		}
	}
}
