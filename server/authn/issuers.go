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

// issuers verifies tokens of OpenID Connect issuers with upstream's authenticators. It decides when the issuers of a changed configuration
// replace the present ones. Upstream creates all of them anew, and trusts the present ones until all new ones answer. Here no revocation
// waits for that: a removed issuer is no longer trusted when the file is read, and a changed one is replaced some seconds later at the
// latest. During these seconds its old rules stay in force, so that its users are not refused while the keys are fetched. An unchanged
// issuer stays, whether it answers or not. Each of these steps clears the cache of verified tokens.
type issuers struct {
	// lifetime ends the goroutines that fetch keys.
	lifetime   context.Context
	options    *RemoteOptions
	algorithms []string
	present    atomic.Pointer[trusted]
}

// trusted are the issuers of a configuration.
type trusted struct {
	issuers []*trustedIssuer
	tokens  authenticator.Token
	seed    keySeed
	// foreign are tokens of other issuers.
	foreign foreignTokens
}

type trustedIssuer struct {
	oidc.AuthenticatorTokenWithHealthCheck

	config apiserver.JWTAuthenticator
	stop   context.CancelFunc
}

const (
	// answersInterval is how often new issuers are checked for an answer, and answersTimeout for how long. With configInterval it is
	// less than the ten seconds after which the old rules of a changed issuer must no longer be in force; and because it is less than
	// configInterval, the next change is seen in time.
	answersInterval = 100 * time.Millisecond
	answersTimeout  = 3 * time.Second
	// retirement is how long requests that began earlier may still use a removed issuer.
	retirement = time.Minute
)

// newIssuers does not wait for the issuers to answer.
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
	now := i.present.Load()
	if len(now.issuers) == 0 {
		return nil, false, nil
	}
	key := now.seed.key(ctx, token)
	if now.foreign.has(key) {
		return nil, false, nil
	}
	response, ok, err := now.tokens.AuthenticateToken(ctx, token)
	if !ok && err == nil {
		now.foreign.add(key)
	}
	return response, ok, err
}

// of returns the issuers of a configuration. It reuses unchanged ones of there; fresh are those that it has created.
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

// trust returns a token authenticator for issuers, with an empty cache.
func (i *issuers) trust(issuers []*trustedIssuer) *trusted {
	var tokens []authenticator.Token
	for _, one := range issuers {
		tokens = append(tokens, one)
	}
	known := authenticator.WrapAudienceAgnosticToken(i.options.Audiences, tokenunion.NewFailOnError(tokens...))
	return &trusted{issuers: issuers, tokens: tokencache.New(known, true, remoteAge, 0), seed: newKeySeed()}
}

func (i *issuers) issuer(config apiserver.JWTAuthenticator) (*trustedIssuer, error) {
	o := oidc.Options{JWTAuthenticator: config, SupportedSigningAlgs: i.algorithms, DisallowedIssuers: i.options.Issuers, APIServerID: i.options.ServerID}
	if config.Issuer.EgressSelectorType == "" { // upstream rejects other values, since no egress selector is configured
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

// issuerClient returns a client that accepts an issuer's certificate from the given authorities, or, without any, from the system's. It
// is upstream's client with a limit on the size of answers.
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

// update replaces the present issuers by those of a configuration, when the new and changed ones answer, and after answersTimeout in
// any case. An issuer that does not answer by then is trusted as soon as it does, as after a start.
//
// Errors: an issuer that cannot be created, which leaves everything unchanged, and the end of ctx.
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

// retire stops the issuers that are not among the present ones, and removes the metrics of URLs without an issuer.
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
