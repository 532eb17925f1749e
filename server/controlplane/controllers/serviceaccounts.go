package controllers

import (
	"context"
	"time"

	"github.com/tidwall/gjson"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// ServiceAccounts configures the controllers of ServiceAccounts and of their Secrets.
type ServiceAccounts struct {
	// Tokens signs the tokens for Secrets. Nil: Secrets get no tokens.
	Tokens tokens.TokenGenerator
	// CleanUpPeriod is how long an unused token stays in a Secret that was created for its ServiceAccount. 0: a year.
	CleanUpPeriod time.Duration
}

const (
	serviceAccountsResource = "serviceaccounts"
	secretsResource         = "secrets"
	// serviceAccountWorkers is kube-controller-manager's number, for ServiceAccounts and for Secrets each.
	serviceAccountWorkers = 5
	// defaultCleanUpPeriod is kube-controller-manager's value.
	defaultCleanUpPeriod = 365 * 24 * time.Hour
)

// manager is the user of kube-controller-manager itself: its token controller sends requests as this user, and not as a ServiceAccount.
var manager = resources.Actor{Info: &user.DefaultInfo{Name: user.KubeControllerManager, Groups: []string{user.AllAuthenticated}}}

// newServiceAccounts returns the controller that maintains the ServiceAccount "default" in every namespace.
func newServiceAccounts(c Config) controller {
	if c.Client == nil {
		return nil
	}
	options := serviceaccount.DefaultServiceAccountsControllerOptions()
	kept := options.ServiceAccounts[0].Name
	o := hosted.Options{Name: ServiceAccount, Always: true, Follows: []hosted.Followed{
		{Resource: namespacesResource},
		{Resource: serviceAccountsResource, Shows: func(o *resources.Object) bool { return o.Name == kept }},
	}}
	return newHost(c, o, "service-account-controller", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		core := corev1.New(informers, "", nil)
		s, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), client, options)
		if err != nil {
			return err
		}
		informers.CalmQueue(s, "serviceaccount")
		s.Run(ctx, 1)
		return nil
	})
}

// holdsToken tells whether an object is a Secret for the token of a ServiceAccount.
func holdsToken(o *resources.Object) bool {
	return gjson.GetBytes(o.Data, "type").Str == string(v1.SecretTypeServiceAccountToken)
}

// newTokens returns the controller that puts tokens into such Secrets, and removes the Secrets with their ServiceAccounts.
func newTokens(c Config) controller {
	if c.ServiceAccounts.Tokens == nil || c.Trust == nil {
		return nil
	}
	o := hosted.Options{Name: ServiceAccountToken, Follows: []hosted.Followed{
		{Resource: serviceAccountsResource},
		{Resource: secretsResource, Shows: holdsToken, Needs: holdsToken},
		{Resource: "configmaps", Shows: func(*resources.Object) bool { return false }}, // only read
	}}
	return newHostAs(c, o, manager, func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		ctx, stop := c.Trust.until(ctx)
		defer stop()
		core := corev1.New(informers, "", nil)
		bundle := c.Trust.Bundle()
		secrets := &tokenSecrets{core.Secrets(), core.Secrets().Lister(), newPublished(c, bundle, core)}
		t, err := serviceaccount.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), secrets, client,
			serviceaccount.TokensControllerOptions{TokenGenerator: c.ServiceAccounts.Tokens, RootCA: bundle})
		if err != nil {
			return err
		}
		t.Run(ctx, serviceAccountWorkers)
		return nil
	})
}

// tokenSecrets shows the token controller Secrets with published authorities as ones with the server's own.
type tokenSecrets struct {
	corev1.SecretInformer
	listersv1.SecretLister
	published *published
}

// Lister implements corev1.SecretInformer.
func (s *tokenSecrets) Lister() listersv1.SecretLister { return s }

// Secrets implements listersv1.SecretLister.
func (s *tokenSecrets) Secrets(namespace string) listersv1.SecretNamespaceLister {
	return &tokenSecretsOf{s.SecretLister.Secrets(namespace), s.published}
}

type tokenSecretsOf struct {
	listersv1.SecretNamespaceLister
	published *published
}

// Get implements listersv1.SecretNamespaceLister.
func (s *tokenSecretsOf) Get(name string) (*v1.Secret, error) {
	found, err := s.SecretNamespaceLister.Get(name)
	if err != nil || !s.published.has(string(found.Data[v1.ServiceAccountRootCAKey])) {
		return found, err
	}
	shown := found.DeepCopy()
	shown.Data[v1.ServiceAccountRootCAKey] = []byte(s.published.own.text)
	return shown, nil
}

// newTokenCleaner returns the controller that removes Secrets whose tokens have long been unused.
func newTokenCleaner(c Config) controller {
	options := serviceaccount.LegacySATokenCleanerOptions{CleanUpPeriod: c.ServiceAccounts.CleanUpPeriod, SyncInterval: serviceaccount.DefaultCleanerSyncInterval}
	if options.CleanUpPeriod == 0 {
		options.CleanUpPeriod = defaultCleanUpPeriod
	}
	never := func(*resources.Object) bool { return false } // it lists them when its period has passed
	o := hosted.Options{Name: LegacyTokenCleaner, Follows: []hosted.Followed{
		{Resource: serviceAccountsResource, Shows: never},
		{Resource: secretsResource, Shows: never, Needs: holdsToken},
		{Resource: "pods", Shows: never},
	}}
	return newHost(c, o, "legacy-service-account-token-cleaner", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		core := corev1.New(informers, "", nil)
		t, err := serviceaccount.NewLegacySATokenCleaner(core.ServiceAccounts(), core.Secrets(), core.Pods(), client, clock.RealClock{}, options)
		if err != nil {
			return err
		}
		t.Run(ctx)
		return nil
	})
}
