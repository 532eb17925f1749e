package builtin

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	kapihelper "k8s.io/kubernetes/pkg/apis/core/helper"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/rowlock/rowlock/resources"
)

// unlessEscalating refuses roles and bindings that give rights which their writer does not have.
//
// Not inlined, because each of its calls would take a copy of its function in the binary.
//
//go:noinline
func unlessEscalating(p Parts) option {
	return func(t *resources.Type) {
		if p.Rules != nil {
			t.Permit = escalation{p}.check
		}
	}
}

// escalation decides as upstream's storages do (k8s.io/kubernetes/pkg/registry/rbac/*/policybased), which a test compares it with.
// Those split a rule into its combinations of group, resource, verb and name before they look at any: a rule of 1 KB can have
// 100 million, which take 18 GB.
type escalation struct{ Parts }

// fullAuthority is what a user must have to let a ClusterRole gather rules.
var fullAuthority = []rbacv1.PolicyRule{
	{Verbs: []string{rbacv1.VerbAll}, APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}},
	{Verbs: []string{rbacv1.VerbAll}, NonResourceURLs: []string{rbacv1.NonResourceAll}},
}

// check is the Permit function of the four types.
func (e escalation) check(ctx context.Context, obj, old runtime.Object) error {
	if rbacregistry.EscalationAllowed(ctx) || old != nil && rbacregistry.IsOnlyMutatingGCFields(obj, old, kapihelper.Semantic) {
		return nil
	}
	switch obj := obj.(type) {
	case *rbac.ClusterRole:
		was, _ := old.(*rbac.ClusterRole)
		return e.role(ctx, "clusterroles", obj.Name, obj.Rules, aggregated(obj) || was != nil && aggregated(was))
	case *rbac.Role:
		return e.role(ctx, "roles", obj.Name, obj.Rules, false)
	case *rbac.ClusterRoleBinding:
		return e.binding(ctx, "clusterrolebindings", obj.Name, obj.RoleRef, "")
	case *rbac.RoleBinding:
		namespace, ok := genericapirequest.NamespaceFrom(ctx)
		if !ok {
			return apierrors.NewBadRequest("namespace is required")
		}
		return e.binding(ctx, "rolebindings", obj.Name, obj.RoleRef, namespace)
	}
	return nil
}

func aggregated(r *rbac.ClusterRole) bool {
	return r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

func (e escalation) role(ctx context.Context, resource, name string, rules []rbac.PolicyRule, aggregates bool) error {
	if rbacregistry.RoleEscalationAuthorized(ctx, e.Authorizer) {
		return nil
	}
	given := make([]rbacv1.PolicyRule, len(rules))
	for i := range rules {
		if err := rbacv1helpers.Convert_rbac_PolicyRule_To_v1_PolicyRule(&rules[i], &given[i], nil); err != nil {
			return err
		}
	}
	err := e.confirm(ctx, given)
	if err == nil && aggregates && e.confirm(ctx, fullAuthority) != nil {
		err = errors.New("must have cluster-admin privileges to use the aggregationRule")
	}
	return forbidden(ctx, resource, name, err)
}

// forbidden is the error of a request that is refused, unless its time is over.
func forbidden(ctx context.Context, resource, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return apierrors.NewForbidden(rbac.Resource(resource), name, err)
}

func (e escalation) binding(ctx context.Context, resource, name string, ref rbac.RoleRef, namespace string) error {
	if rbacregistry.BindingAuthorized(ctx, ref, namespace, e.Authorizer) {
		return nil
	}
	rules, err := e.Rules.GetRoleReferenceRules(ctx, rbacv1.RoleRef{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}, namespace)
	if err != nil {
		return err
	}
	return forbidden(ctx, resource, name, e.confirm(ctx, rules))
}

// confirm is upstream's ConfirmNoEscalation, which is asked about the rules only that the user does not have: it words the refusal.
func (e escalation) confirm(ctx context.Context, rules []rbacv1.PolicyRule) error {
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return errors.New("no user on context")
	}
	namespace, _ := genericapirequest.NamespaceFrom(ctx)
	has, err := e.Rules.RulesFor(ctx, who, namespace)
	c := newCoverage(ctx, has)
	for i := range rules {
		c.add(&rules[i])
	}
	refusal := validation.ConfirmNoEscalation(ctx, unresolved{err: err}, c.uncovered)
	switch {
	case c.stopped && refusal != nil:
		return fmt.Errorf("%w\n(the list ends here, there may be more)", refusal)
	case c.stopped:
		return fmt.Errorf("user %q (groups=%q) is attempting to grant RBAC permissions in too many combinations to compare them with those currently held",
			who.GetName(), who.GetGroups())
	}
	return refusal
}

// unresolved finds no rules of a user, with the error of those that found some.
type unresolved struct {
	validation.AuthorizationRuleResolver // nil

	err error
}

// RulesFor implements validation.AuthorizationRuleResolver.
func (u unresolved) RulesFor(context.Context, user.Info, string) ([]rbacv1.PolicyRule, error) {
	return nil, u.err
}
