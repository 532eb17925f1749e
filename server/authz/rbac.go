package authz

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/rowlock/rowlock/resources"
)

// RBAC authorizes by the stored roles and bindings, as upstream's RBACAuthorizer does. It is safe for concurrent use.
type RBAC struct {
	policy *policy
	feed   *feed
}

var (
	_ authorizer.Authorizer                = (*RBAC)(nil)
	_ authorizer.RuleResolver              = (*RBAC)(nil)
	_ validation.AuthorizationRuleResolver = Rules{}
)

// NewRBAC returns the authorizer for the roles and bindings of a store, which are read at the first request.
func NewRBAC(store resources.View) *RBAC {
	p := newPolicy()
	return &RBAC{policy: p, feed: newFeed(store, p, clusterRolesResource, rolesResource, clusterRoleBindingsResource, roleBindingsResource)}
}

// Run keeps the roles and bindings up to date even without requests, until ctx ends.
func (r *RBAC) Run(ctx context.Context, logger *slog.Logger) { r.feed.run(ctx, logger) }

// visit calls f with each grant of a user in a namespace, cluster-wide ones first, until it returns false. A binding that
// names the user in several ways is visited once, for the first subject that does, as in upstream.
func (p *policy) visit(who user.Info, namespace string, f func(grant) bool) {
	if !p.grants[""].visit(who, f) || namespace == "" {
		return
	}
	p.grants[namespace].visit(who, f)
}

func (s bySubject) visit(who user.Info, f func(grant) bool) bool {
	if len(s) == 0 {
		return true
	}
	groups := who.GetGroups()
	if len(groups) > fewGroups {
		return s.visitMany(who, f)
	}
	for _, g := range s[subject{name: who.GetName()}] {
		if g.first(who) && !f(g) {
			return false
		}
	}
	for i, group := range groups {
		if slices.Contains(groups[:i], group) {
			continue
		}
		for _, g := range s[subject{group: true, name: group}] {
			if g.first(who) && !f(g) {
				return false
			}
		}
	}
	return true
}

// fewGroups is how many groups of a user are compared one by one. A review may ask about a user with hundreds of thousands.
const fewGroups = 16

// visitMany is visit for a user with any number of groups, in time proportional to them and to their grants.
func (s bySubject) visitMany(who user.Info, f func(grant) bool) bool {
	var found []subject
	asked, first := map[subject]bool{}, map[*binding]int{}
	look := func(of subject) {
		if len(s[of]) == 0 || asked[of] {
			return
		}
		asked[of] = true
		found = append(found, of)
		for _, g := range s[of] {
			if at, known := first[g.binding]; !known || g.subject < at {
				first[g.binding] = g.subject
			}
		}
	}
	look(subject{name: who.GetName()})
	for _, group := range who.GetGroups() {
		look(subject{group: true, name: group})
	}
	for _, of := range found {
		for _, g := range s[of] {
			if first[g.binding] == g.subject && !f(g) {
				return false
			}
		}
	}
	return true
}

// first tells whether no earlier subject of the binding matches the user.
func (g grant) first(who user.Info) bool {
	for i := range g.subject {
		switch s, ok := g.who(i); {
		case ok && s.group && slices.Contains(who.GetGroups(), s.name), ok && !s.group && s.name == who.GetName():
			return false
		}
	}
	return true
}

// Authorize implements authorizer.Authorizer. It never denies: another authorizer may allow the request.
func (r *RBAC) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if err := r.feed.fresh(ctx); err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("RBAC: %w", err)
	}
	r.policy.mu.RLock()
	defer r.policy.mu.RUnlock()
	asked := newQuestion(a)
	var by grant
	var last *role
	var errs []error
	r.policy.visit(a.GetUser(), a.GetNamespace(), func(g grant) bool {
		switch {
		case g.role == nil || !g.role.exists:
			errs = append(errs, missing(g.ref))
		case g.role == last: // examined already
		case asked.ofResource && asked.about&g.role.about == 0: // true of most roles
		case asked.allowed(g.role.rules):
			by = g
			return false
		}
		last = g.role
		return true
	})
	if by.binding != nil {
		return authorizer.DecisionAllow, "RBAC: allowed by " + by.String(), nil
	}
	if len(errs) > 0 {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs)), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// question holds the attributes of a request that rules are compared with.
type question struct {
	// ofResource: the request is for a resource, and path is not used; otherwise only verb and path are.
	ofResource bool
	verb, path string
	group      string
	// resource includes a subresource, after a slash.
	resource, subresource string
	name                  string
	about                 marks
}

func newQuestion(a authorizer.Attributes) question {
	q := question{a.IsResourceRequest(), a.GetVerb(), a.GetPath(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetName(), 0}
	if q.subresource != "" {
		q.resource += "/" + q.subresource
		q.about = markOf("*/" + q.subresource)
	}
	q.about |= markOf(q.resource)
	return q
}

// allowed tells whether one of the rules allows the request. It is upstream's RuleAllows
// (k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac), except that it joins resource and subresource once, not for every rule, and
// first compares what fewest rules match. FuzzRBACIsUpstreams compares the two.
func (q *question) allowed(rules []rbacv1.PolicyRule) bool {
	for i := range rules {
		rule := &rules[i]
		if q.ofResource {
			if rbacv1helpers.ResourceMatches(rule, q.resource, q.subresource) && rbacv1helpers.VerbMatches(rule, q.verb) &&
				rbacv1helpers.APIGroupMatches(rule, q.group) && rbacv1helpers.ResourceNameMatches(rule, q.name) {
				return true
			}
		} else if rbacv1helpers.NonResourceURLMatches(rule, q.path) && rbacv1helpers.VerbMatches(rule, q.verb) {
			return true
		}
	}
	return false
}

// missing returns the error for a role that a binding refers to and that does not exist, in the words of upstream's authorizer.
func missing(ref rbacv1.RoleRef) error {
	switch ref.Kind {
	case "Role":
		return apierrors.NewNotFound(rbacv1.Resource("role"), ref.Name)
	case "ClusterRole":
		return apierrors.NewNotFound(rbacv1.Resource("clusterrole"), ref.Name)
	}
	return fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}

// String describes the grant in upstream's words, which have name/namespace.
func (g grant) String() string {
	b := make([]byte, 0, 160)
	name := g.Name
	if g.Namespace == "" {
		b = append(b, "ClusterRoleBinding "...)
	} else {
		b = append(b, "RoleBinding "...)
		name += "/" + g.Namespace
	}
	b = append(strconv.AppendQuote(b, name), " of "...)
	b = append(append(b, g.ref.Kind...), ' ')
	b = append(strconv.AppendQuote(b, g.ref.Name), " to "...)
	s := g.subjects[g.subject]
	b = append(append(b, s.Kind...), ' ')
	who := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		namespace := s.Namespace
		if namespace == "" {
			namespace = g.Namespace
		}
		who += "/" + namespace
	}
	return string(strconv.AppendQuote(b, who))
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: no rule has conditions.
func (r *RBAC) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(r.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer: there are none.
func (*RBAC) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}
