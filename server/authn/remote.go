package authn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authenticator/token/bootstrap"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/bounded"
	"github.com/rowlock/rowlock/resources/indexer"
	"github.com/rowlock/rowlock/resources/upstream"
)

// RemoteOptions configure the authenticators of tokens outside this server: OpenID Connect issuers and a webhook; and the Secrets
// of bootstrap tokens.
type RemoteOptions struct {
	// ConfigFile is an AuthenticationConfiguration, read again when it changes. Empty: there is none.
	ConfigFile string
	// AnonymousFlag says that a flag configures anonymous requests; the file must not do so then.
	AnonymousFlag bool
	// ServerID is the name of this server in metrics.
	ServerID string
	// JWT is an issuer that is configured without a file. Nil: there is none.
	JWT *apiserver.JWTAuthenticator
	// SigningAlgorithms are those that JWT may use.
	SigningAlgorithms []string
	// WebhookConfigFile is a kubeconfig of the webhook, WebhookVersion the version of TokenReview that it takes, and
	// WebhookCacheTTL how long its answers are cached. Empty: there is none.
	WebhookConfigFile, WebhookVersion string
	WebhookCacheTTL                   time.Duration
	// Bootstrap accepts the bootstrap tokens in Secrets of kube-system, with which machines join.
	Bootstrap bool
	// Audiences are the token audiences that mean this server.
	Audiences []string
	// Issuers are this server's own, which no other issuer may claim to be.
	Issuers []string
	Store   resources.Reader
	Logger  *slog.Logger
}

// Remote authenticates by other servers, and caches their answers for some seconds. It is an authenticator.Token.
type Remote struct {
	authenticator.Token

	options   RemoteOptions
	anonymous *apiserver.AnonymousAuthConfig
	update    func(context.Context, *apiserver.AuthenticationConfiguration) error
	// read is the content of the file when it was last read.
	read []byte
}

const (
	// configInterval is how often the file is read.
	configInterval = 5 * time.Second
	// remoteAge is how long results of issuers are cached.
	remoteAge = 4 * time.Second
)

// webhookBackoff is kube-apiserver's.
var webhookBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}

// NewRemote returns nil when no such authenticator is configured. Its goroutines end with ctx. Errors: files that cannot be read or
// are invalid.
func NewRemote(ctx context.Context, o RemoteOptions) (*Remote, error) {
	if o.ConfigFile == "" && o.JWT == nil && o.WebhookConfigFile == "" && !o.Bootstrap {
		return nil, nil
	}
	r, in := &Remote{options: o}, &apiserver.AuthenticationConfiguration{}
	algorithms := o.SigningAlgorithms
	var err error
	switch {
	case o.ConfigFile != "":
		algorithms = oidc.AllValidSigningAlgorithms()
		if r.read, err = os.ReadFile(o.ConfigFile); err != nil {
			return nil, fmt.Errorf("--authentication-config: %w", err)
		}
		if in, err = o.parse(r.read); err != nil {
			return nil, fmt.Errorf("--authentication-config %s: %w", o.ConfigFile, err)
		}
		if in.Anonymous != nil && o.AnonymousFlag {
			return nil, field.Forbidden(field.NewPath("anonymous"), "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
		r.anonymous = in.Anonymous.DeepCopy()
		upstream.CountAuthenticationFiles()
		metrics.RecordAuthenticationConfigLastConfigInfo(o.ServerID, string(r.read))
	case o.JWT != nil:
		in.JWT = []apiserver.JWTAuthenticator{*o.JWT}
		if err = o.validate(in); err != nil {
			return nil, fmt.Errorf("--oidc-issuer-url: %w", err)
		}
	}
	issuers, err := newIssuers(ctx, &r.options, algorithms, in)
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	r.update = issuers.update
	kinds := []authenticator.Token{issuers}
	if o.Bootstrap {
		kinds = []authenticator.Token{o.bootstrapTokens(), issuers}
	}
	if o.WebhookConfigFile != "" {
		hook, err := o.webhook()
		if err != nil {
			return nil, fmt.Errorf("authentication: %w", err)
		}
		kinds = append(kinds, hook)
	}
	r.Token = tokenunion.New(kinds...)
	return r, nil
}

// bootstrapTokens reads the tokens from the watch cache: they need no cache of their own, and a token whose Secret was deleted is
// refused at the next request.
func (o *RemoteOptions) bootstrapTokens() authenticator.Token {
	secrets := corelisters.NewSecretLister(indexer.New(o.Store, &corev1.Secret{}))
	return authenticator.WrapAudienceAgnosticToken(o.Audiences, bootstrap.NewTokenAuthenticator(secrets.Secrets(metav1.NamespaceSystem)))
}

// webhook returns the webhook authenticator, with a cache of its answers.
func (o *RemoteOptions) webhook() (authenticator.Token, error) {
	connection, err := bounded.Config(webhookutil.LoadKubeconfig(o.WebhookConfigFile, nil))
	if err != nil {
		return nil, err
	}
	hook, err := webhook.New(connection, o.WebhookVersion, o.Audiences, webhookBackoff)
	if err != nil {
		return nil, err
	}
	return tokencache.New(hook, false, o.WebhookCacheTTL, o.WebhookCacheTTL), nil
}

// parse decodes and validates an AuthenticationConfiguration.
func (o *RemoteOptions) parse(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("the file is empty")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("it has a %T, and not an AuthenticationConfiguration", obj)
	}
	return c, o.validate(c)
}

func (o *RemoteOptions) validate(c *apiserver.AuthenticationConfiguration) error {
	if errs := validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), c, o.Issuers); len(errs) > 0 {
		return errs.ToAggregate()
	}
	return nil
}

// Run applies changes of the file until ctx ends. A file that cannot be read or is invalid leaves the present configuration in force.
func (r *Remote) Run(ctx context.Context) {
	if r == nil || r.options.ConfigFile == "" {
		return
	}
	tick := time.NewTicker(configInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.reload(ctx); err != nil {
			r.options.Logger.Error("the changed authentication configuration is not used", "file", r.options.ConfigFile, "error", err)
		}
	}
}

// reload applies the file if it has changed, by upstream's rules: an invalid file is not tried again until it changes.
func (r *Remote) reload(ctx context.Context) (err error) {
	data, err := os.ReadFile(r.options.ConfigFile)
	if err == nil && bytes.Equal(data, r.read) {
		return nil
	}
	defer func() {
		if err != nil {
			metrics.RecordAuthenticationConfigAutomaticReloadFailure(r.options.ServerID)
		}
	}()
	if err != nil {
		return err
	}
	r.read = data
	c, err := r.options.parse(data)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(r.anonymous, c.Anonymous) {
		return field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file")
	}
	if err := r.update(ctx, c); err != nil {
		r.read = nil // the next attempt may succeed; upstream retries, too
		return err
	}
	metrics.RecordAuthenticationConfigAutomaticReloadSuccess(r.options.ServerID, string(data))
	r.options.Logger.Info("took up the changed authentication configuration", "file", r.options.ConfigFile)
	return nil
}

// Anonymous tells whether anonymous requests for a path are allowed, and whether the file configures that at all.
func (r *Remote) Anonymous(path string) (allowed, said bool) {
	if r == nil {
		return false, false
	}
	return anonymousBy(r.anonymous, path)
}

func anonymousBy(a *apiserver.AnonymousAuthConfig, path string) (allowed, said bool) {
	if a == nil {
		return false, false
	}
	on := slices.ContainsFunc(a.Conditions, func(c apiserver.AnonymousAuthCondition) bool { return c.Path == path })
	return a.Enabled && (on || len(a.Conditions) == 0), true
}

// Anonymous is Remote.Anonymous for the time before there is a Remote. An invalid file allows no anonymous requests; NewRemote reports
// its error.
func (o RemoteOptions) Anonymous() func(path string) (allowed, said bool) {
	nobody := func(string) (allowed, said bool) { return false, o.ConfigFile != "" }
	if o.ConfigFile == "" {
		return nobody
	}
	data, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return nobody
	}
	c, err := o.parse(data)
	if err != nil {
		return nobody
	}
	return func(path string) (allowed, said bool) { return anonymousBy(c.Anonymous, path) }
}
