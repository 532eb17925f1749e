package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Rules are what users may do according to the stored roles and bindings, whichever authorizers are configured: writes of roles and
// bindings are checked against them. It is a validation.AuthorizationRuleResolver.
type Rules struct{ rbac *RBAC }

// Rules returns the rules behind the authorizer.
func (r *RBAC) Rules() Rules { return Rules{r} }

// collect returns all rules of a user in a namespace, those of a role once, however many bindings refer to it: many bindings of a large role
// would take gigabytes. Upstream repeats them, which means nothing. The error reports roles that do not exist, in the words of absent; the rules of
// the others are returned with it.
func (r *RBAC) collect(ctx context.Context, who user.Info, namespace string, absent func(ref rbacv1.RoleRef, namespace string) error) (rules []rbacv1.PolicyRule, err error) {
	var errs []error
	var of [][]rbacv1.PolicyRule // which the index never changes, so they are copied without its lock
	seen := map[*role]bool{}
	err = r.visit(ctx, who, namespace, func(g grant) bool {
		if g.role == nil || !g.role.exists {
			errs = append(errs, absent(g.ref, g.Namespace))
		} else if !seen[g.role] {
			seen[g.role] = true
			of = append(of, g.role.rules)
		}
		return true
	})
	if err != nil {
		errs = append(errs, err)
	}
	return slices.Concat(of...), utilerrors.NewAggregate(errs)
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
	rules, err := r.collect(ctx, who, namespace, func(ref rbacv1.RoleRef, _ string) error { return missing(ref) })
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

// RulesFor returns all rules of a user in a namespace. The error reports roles that do not exist.
func (r Rules) RulesFor(ctx context.Context, who user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	return r.rbac.collect(ctx, who, namespace, absentFor(ctx))
}

// VisitRulesFor calls visitor with each rule of a user in a namespace, and with an error for each role that does not exist, until
// it returns false.
func (r Rules) VisitRulesFor(ctx context.Context, who user.Info, namespace string, visitor func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool) {
	err := r.rbac.visit(ctx, who, namespace, func(g grant) bool {
		if g.role == nil || !g.role.exists {
			return visitor(nil, nil, absentFor(ctx)(g.ref, g.Namespace))
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
	return nil, absentFor(ctx)(ref, namespace)
}

// absentFor returns a function for the error of a binding's roleRef that does not exist. Upstream looks the role up in a storage which
// names the resource of the request instead of the role's, and which checks the name first.
func absentFor(ctx context.Context) func(ref rbacv1.RoleRef, namespace string) error {
	return func(ref rbacv1.RoleRef, namespace string) error {
		looked := rbacv1.Resource("clusterroles")
		switch ref.Kind {
		case "Role":
			if looked = rbacv1.Resource("roles"); namespace == "" {
				return apierrors.NewBadRequest("Namespace parameter required.")
			}
		case "ClusterRole":
		default:
			return missing(ref)
		}
		if ref.Name == "" {
			return apierrors.NewBadRequest("Name parameter required.")
		}
		if wrong := content.IsPathSegmentName(ref.Name); len(wrong) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", ref.Name, strings.Join(wrong, ";")))
		}
		if info, ok := genericapirequest.RequestInfoFrom(ctx); ok && info.IsResourceRequest {
			looked = schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		}
		return apierrors.NewNotFound(looked, ref.Name)
	}
}
