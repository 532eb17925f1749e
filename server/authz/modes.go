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

// Options are what decisions are made of.
type Options struct {
	Store  resources.View
	Logger *slog.Logger
	// Modes are the authorizers in the order in which they are asked, by kube-apiserver's names. The first that allows or denies
	// decides; who is allowed by none is refused. Whoever is in the group system:masters may do everything before any is asked.
	Modes []string
	// File says the same at greater length (AuthorizationConfiguration), and is read again when it changes. Modes are not asked then.
	File string
	// Webhook is the one of Modes.
	Webhook *apiserver.WebhookConfiguration
	// PolicyFile has the policies of ABAC.
	PolicyFile string
	// ServerID names this server in metrics.
	ServerID string
}

// Authorizers decide who may do what: those of Options, one after the other. It is safe for concurrent use.
type Authorizers struct {
	options Options
	rbac    *RBAC
	node    *Node
	abac    abac.PolicyList
	// kinds are those that there were at the start: a changed file neither adds to them nor leaves one out, but for webhooks.
	kinds  sets.Set[apiserver.AuthorizerType]
	reader reader
	// present are those that are asked now.
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

// New returns the authorizers. Errors: a mode that is unknown, or there is none; a file that cannot be read or says what is not allowed.
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

// configuration is what Modes are short for.
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

// Run keeps what decisions are made of up to date although nobody asks, until ctx ends.
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

// Rules are what users may do by RBAC, be it one of the modes or not.
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

// errNone: nobody would decide.
var errNone = errors.New("at least one authorization mode must be passed")
