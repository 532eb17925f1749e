package authz

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Rules are what users may do by the roles and bindings that are stored, whatever authorizers there are: who writes a role or
// binding is measured by them. It is a validation.AuthorizationRuleResolver.
type Rules struct{ rbac *RBAC }

// Rules returns the rules behind the authorizer.
func (r *RBAC) Rules() Rules { return Rules{r} }

// collect returns all rules of a user in a namespace. The error tells of roles that are not there, as those who look call them;
// the rules are what else there is.
func (r *RBAC) collect(ctx context.Context, who user.Info, namespace, roles, clusterRoles string) (rules []rbacv1.PolicyRule, err error) {
	var errs []error
	err = r.visit(ctx, who, namespace, func(g grant) bool {
		if g.role == nil || !g.role.exists {
			errs = append(errs, missing(g.ref, roles, clusterRoles))
		} else {
			rules = append(rules, g.role.rules...)
		}
		return true
	})
	if err != nil {
		errs = append(errs, err)
	}
	return rules, utilerrors.NewAggregate(errs)
}

// visit calls f with each grant of a user in a namespace until it returns false.
func (r *RBAC) visit(ctx context.Context, who user.Info, namespace string, f func(grant) bool) error {
	if err := r.feed.fresh(ctx); err != nil {
		return err
	}
	r.policy.mu.RLock()
	defer r.policy.mu.RUnlock()
	r.policy.visit(who, namespace, f)
	return nil
}

// RulesFor implements authorizer.RuleResolver.
func (r *RBAC) RulesFor(ctx context.Context, who user.Info, namespace string) (of []authorizer.ResourceRuleInfo, others []authorizer.NonResourceRuleInfo, incomplete bool, err error) {
	rules, err := r.collect(ctx, who, namespace, "role", "clusterrole")
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			of = append(of, &authorizer.DefaultResourceRuleInfo{Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources,
				ResourceNames: rule.ResourceNames})
		}
		if len(rule.NonResourceURLs) > 0 {
			others = append(others, &authorizer.DefaultNonResourceRuleInfo{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
		}
	}
	return of, others, false, err
}

// RulesFor returns all rules of a user in a namespace. The error tells of roles that are not there.
func (r Rules) RulesFor(ctx context.Context, who user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	return r.rbac.collect(ctx, who, namespace, "roles", "clusterroles")
}

// VisitRulesFor calls visitor with each rule of a user in a namespace, and with an error for each role that is not there, until it
// returns false.
func (r Rules) VisitRulesFor(ctx context.Context, who user.Info, namespace string, visitor func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool) {
	err := r.rbac.visit(ctx, who, namespace, func(g grant) bool {
		if g.role == nil || !g.role.exists {
			return visitor(nil, nil, missing(g.ref, "roles", "clusterroles"))
		}
		for i := range g.role.rules {
			if !visitor(g, &g.role.rules[i], nil) {
				return false
			}
		}
		return true
	})
	if err != nil {
		visitor(nil, nil, err)
	}
}

// GetRoleReferenceRules returns the rules of the role that a binding in a namespace refers to.
func (r Rules) GetRoleReferenceRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if err := r.rbac.feed.fresh(ctx); err != nil {
		return nil, err
	}
	p := r.rbac.policy
	p.mu.RLock()
	defer p.mu.RUnlock()
	if k, ok := referred(ref, namespace); ok {
		if role := p.roles[k]; role != nil && role.exists {
			return role.rules, nil
		}
	}
	return nil, missing(ref, "roles", "clusterroles")
}
