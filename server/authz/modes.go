package authz

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
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
}

// Authorizers decide who may do what: those of Options.Modes, one after the other. It is safe for concurrent use.
type Authorizers struct {
	Options
	rbac *RBAC
	node *Node
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

// privileged is the name of the authorizer that lets system:masters do everything, as kube-apiserver calls it.
const privileged = "kubernetes.io/system-privileged-group"

// New returns the authorizers. Errors: a mode that is unknown, or there is none.
func New(o Options) (*Authorizers, error) {
	a := &Authorizers{Options: o, rbac: NewRBAC(o.Store), node: NewNode(o.Store)}
	if len(o.Modes) == 0 {
		return nil, fmt.Errorf("at least one authorization mode must be passed")
	}
	chain := []union.NamedAuthorizer{{AuthorizerName: privileged, Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}}
	var resolvers []authorizer.RuleResolver
	for _, mode := range o.Modes {
		one, err := a.authorizer(mode)
		if err != nil {
			return nil, err
		}
		chain = append(chain, union.NamedAuthorizer{AuthorizerName: strings.ToLower(mode), Authorizer: one})
		resolvers = append(resolvers, one)
	}
	all, err := union.New(chain...)
	if err != nil {
		return nil, err
	}
	a.present.Store(&present{all, union.NewRuleResolvers(resolvers...)})
	return a, nil
}

// resolving is an authorizer that also says what a user may do.
type resolving interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

func (a *Authorizers) authorizer(mode string) (resolving, error) {
	switch mode {
	case modes.ModeAlwaysAllow:
		return authorizerfactory.NewAlwaysAllowAuthorizer(), nil
	case modes.ModeAlwaysDeny:
		return authorizerfactory.NewAlwaysDenyAuthorizer(), nil
	case modes.ModeNode:
		return a.node, nil
	case modes.ModeRBAC:
		return a.rbac, nil
	}
	return nil, fmt.Errorf("authorization-mode %q is not a valid mode", mode)
}

// Run keeps what decisions are made of up to date although nobody asks, until ctx ends.
func (a *Authorizers) Run(ctx context.Context) {
	var work errgroup.Group
	work.Go(func() error {
		a.rbac.Run(ctx, a.Logger)
		return nil
	})
	work.Go(func() error {
		a.node.Run(ctx, a.Logger)
		return nil
	})
	_ = work.Wait() // the work has no errors
}

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
