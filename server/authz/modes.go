package authz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/auth/authorizer/abac"
	kubeauthorizer "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/rowlock/rowlock/resources"
)

// Options configure the authorizers.
type Options struct {
	Store  resources.View
	Logger *slog.Logger
	// Modes are the authorizers in the order in which they are asked, by kube-apiserver's names. The first that allows or denies
	// decides; a request that none allows is refused. Members of the group system:masters are allowed everything before any is
	// asked.
	Modes []string
	// File is an AuthorizationConfiguration, which is read again when it changes. It replaces Modes.
	File string
	// Webhook configures the webhook of Modes.
	Webhook *apiserver.WebhookConfiguration
	// PolicyFile has the policies of ABAC.
	PolicyFile string
	// ServerID names this server in metrics.
	ServerID string
}

// Authorizers authorizes requests by the chain of authorizers of Options. It is safe for concurrent use.
type Authorizers struct {
	options Options
	rbac    *RBAC
	node    *Node
	abac    abac.PolicyList
	// kinds are the kinds of authorizers at the start: a changed file neither adds nor removes one, except webhooks.
	kinds  sets.Set[apiserver.AuthorizerType]
	reader reader
	// present are the authorizers in force.
	present atomic.Pointer[present]
}

type present struct {
	authorizer.Authorizer
	rules authorizer.RuleResolver
}

var (
	_ authorizer.Authorizer   = (*Authorizers)(nil)
	_ authorizer.RuleResolver = (*Authorizers)(nil)
)

// New returns the authorizers. Errors: an unknown mode, or no mode; a file that cannot be read or is invalid.
func New(o Options) (*Authorizers, error) {
	a := &Authorizers{options: o, rbac: NewRBAC(o.Store), node: NewNode(o.Store), kinds: sets.New[apiserver.AuthorizerType]()}
	c := o.configuration()
	if o.File != "" {
		var err error
		if c, err = a.reader.open(o.File); err != nil {
			return nil, fmt.Errorf("--authorization-config %s: %w", o.File, err)
		}
	}
	for _, one := range c.Authorizers {
		a.kinds.Insert(one.Type)
	}
	a.kinds.Delete(apiserver.TypeWebhook)
	if a.kinds.Has(apiserver.AuthorizerType(modes.ModeABAC)) {
		var err error
		if a.abac, err = abac.NewFromFile(o.PolicyFile); err != nil {
			return nil, fmt.Errorf("--authorization-policy-file: %w", err)
		}
	}
	if err := a.take(c); err != nil {
		return nil, err
	}
	return a, nil
}

// configuration returns the AuthorizationConfiguration that Modes stand for.
func (o *Options) configuration() *apiserver.AuthorizationConfiguration {
	c := &apiserver.AuthorizationConfiguration{}
	for _, mode := range o.Modes {
		one := apiserver.AuthorizerConfiguration{Type: apiserver.AuthorizerType(mode), Name: kubeauthorizer.GetNameForAuthorizerMode(mode)}
		if mode == modes.ModeWebhook {
			one.Name, one.Webhook = webhookName, o.Webhook
		}
		c.Authorizers = append(c.Authorizers, one)
	}
	return c
}

// Run keeps the state behind decisions up to date even without requests, until ctx ends.
func (a *Authorizers) Run(ctx context.Context) {
	var work errgroup.Group
	for _, run := range []func(){
		func() { a.rbac.Run(ctx, a.options.Logger) },
		func() { a.node.Run(ctx, a.options.Logger) },
		func() { a.follow(ctx) },
	} {
		work.Go(func() error { run(); return nil })
	}
	_ = work.Wait() // the work has no errors
}

// AsksRBAC tells whether RBAC is one of the modes. A changed file does not change that.
func (a *Authorizers) AsksRBAC() bool { return a.kinds.Has(apiserver.AuthorizerType(modes.ModeRBAC)) }

// Rules returns what RBAC allows users, whether or not RBAC is one of the modes.
func (a *Authorizers) Rules() Rules { return a.rbac.Rules() }

// Authorize implements authorizer.Authorizer.
func (a *Authorizers) Authorize(ctx context.Context, q authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.present.Load().Authorize(ctx, q)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (a *Authorizers) ConditionsAwareAuthorize(ctx context.Context, q authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return a.present.Load().ConditionsAwareAuthorize(ctx, q)
}

// EvaluateConditions implements authorizer.Authorizer.
func (a *Authorizers) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return a.present.Load().EvaluateConditions(ctx, d, data)
}

// RulesFor implements authorizer.RuleResolver.
func (a *Authorizers) RulesFor(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return a.present.Load().rules.RulesFor(ctx, who, namespace)
}

// errNone says that there is no authorization mode.
var errNone = errors.New("at least one authorization mode must be passed")
