package builtin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	clusterrolepolicy "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	clusterrolebindingpolicy "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	rolepolicy "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	rolebindingpolicy "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"
	registryvalidation "k8s.io/kubernetes/pkg/registry/rbac/validation"
)

// choices chooses a number below n.
type choices interface{ IntN(n int) int }

func someOf(r choices, of ...string) (some []string) {
	for range r.IntN(4) {
		some = append(some, of[r.IntN(len(of))])
	}
	return some
}

func randomRules(r choices, most int) (rules []rbacv1.PolicyRule) {
	for range r.IntN(most) {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: someOf(r, "get", "list", "*", ""), APIGroups: someOf(r, "", "apps", "*"),
			Resources:       someOf(r, "pods", "pods/log", "*/log", "x/log", "*", "a/b/c", "*/b/c", ""),
			ResourceNames:   someOf(r, "a", "b", "*", ""),
			NonResourceURLs: someOf(r, "/a", "/a/*", "/a/b", "*", "/**", "", "/a*"),
		})
	}
	return rules
}

// The rules that the user does not have are those that upstream finds, in its order.
func TestCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := 0
	for range 20_000 {
		if compareCoverage(t, r) {
			some++
		}
	}
	if some < 100 {
		t.Errorf("only %d comparisons found all rules covered", some)
	}
}

// compareCoverage compares rules with those of a user, and reports whether there were some, all covered.
func compareCoverage(t *testing.T, r choices) bool {
	t.Helper()
	owner, given := randomRules(r, 8), randomRules(r, 4)
	c := newCoverage(t.Context(), owner)
	for i := range given {
		c.add(&given[i])
	}
	covered, missing := validation.Covers(owner, given)
	if len(missing) == 0 {
		missing = nil
	}
	if diff := cmp.Diff(missing, c.uncovered); diff != "" || c.stopped {
		t.Fatalf("owner %v\ngiven %v\n%s", owner, given, diff)
	}
	return covered && len(given) > 1
}

func numbered(prefix string, n int) []string {
	of := make([]string, n)
	for i := range of {
		of[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return of
}

// hundred is a rule of 100 million combinations.
func hundred() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: numbered("g", 100), Resources: numbered("r", 100), Verbs: numbered("v", 100), ResourceNames: numbered("n", 100)}
}

// Rules with more combinations than fit into memory are compared, however the rules of the user divide them.
func TestCoverageOfManyCombinations(t *testing.T) {
	given := hundred()
	divided := func(by func(*rbacv1.PolicyRule) *[]string) (owner []rbacv1.PolicyRule) {
		for i := range 100 {
			one := given
			*by(&one) = (*by(&one))[i : i+1]
			owner = append(owner, one)
		}
		return owner
	}
	lists := []func(*rbacv1.PolicyRule) *[]string{
		func(r *rbacv1.PolicyRule) *[]string { return &r.APIGroups }, func(r *rbacv1.PolicyRule) *[]string { return &r.Resources },
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs }, func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames },
	}
	owners := [][]rbacv1.PolicyRule{{given}, fullAuthority}
	for _, by := range lists {
		owners = append(owners, divided(by))
	}
	for i, owner := range owners {
		c := newCoverage(t.Context(), owner)
		c.add(&given)
		if c.stopped || len(c.uncovered) > 0 {
			t.Errorf("owner %d: %d combinations are not covered, stopped: %t", i, len(c.uncovered), c.stopped)
		}
	}
	c := newCoverage(t.Context(), nil)
	c.add(&given)
	if !c.stopped || len(c.uncovered) != maxUncovered {
		t.Errorf("without rules: %d combinations are kept, stopped: %t", len(c.uncovered), c.stopped)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if c = newCoverage(ended, divided(lists[0])); !allStopped(c, &given) {
		t.Error("a comparison goes on when its request has ended")
	}
	many := make([]rbacv1.PolicyRule, maxCoverageSteps/1000)
	for of, i := slices.Repeat([]string{"r"}, 2000), 0; i < len(many); i++ {
		many[i].Resources = of
	}
	if c = newCoverage(t.Context(), many); !c.stopped {
		t.Error("a comparison reads any number of rules of a user")
	}
	// Each user's rule covers all but one element of each list: few beginnings have the same rules.
	var odd []rbacv1.PolicyRule
	for i := range 100 {
		one := given
		for _, by := range lists {
			list := *by(&one)
			*by(&one) = append(append([]string{}, list[:i]...), list[i+1:]...)
		}
		odd = append(odd, one)
	}
	if c = newCoverage(t.Context(), odd); !allStopped(c, &given) {
		t.Errorf("a comparison took %d steps and did not stop", c.steps)
	}
	if c.coveredSize > 2*maxCoverageKnown {
		t.Errorf("a comparison keeps %d bytes", c.coveredSize)
	}
}

// allStopped adds a rule until the comparison stops, or has had the time to.
func allStopped(c *coverage, rule *rbacv1.PolicyRule) bool {
	for range 2000 {
		if c.add(rule); c.stopped {
			return true
		}
	}
	return false
}

// held are the rules of the user of a request, and some roles.
type held struct {
	registryvalidation.AuthorizationRuleResolver

	rules []rbacv1.PolicyRule
	err   error
	roles map[string][]rbacv1.PolicyRule
}

func (h held) RulesFor(context.Context, user.Info, string) ([]rbacv1.PolicyRule, error) {
	return h.rules, h.err
}

func (h held) GetRoleReferenceRules(_ context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if rules, ok := h.roles[namespace+"/"+ref.Name]; ok {
		return rules, nil
	}
	return nil, errors.New("no such role")
}

// unguarded is the storage behind upstream's guards.
type unguarded struct {
	rest.StandardStorage

	old runtime.Object
}

func (u unguarded) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return obj, nil
}

func (u unguarded) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc,
	_ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, err := info.UpdatedObject(ctx, u.old)
	return obj, false, err
}

// upstreams is the answer of the storages whose place escalation takes.
func upstreams(ctx context.Context, p Parts, obj, old runtime.Object) error {
	var guard interface {
		rest.Creater
		rest.Updater
	}
	switch behind := (unguarded{old: old}); obj.(type) {
	case *rbac.ClusterRole:
		guard = clusterrolepolicy.NewStorage(behind, p.Authorizer, p.Rules)
	case *rbac.ClusterRoleBinding:
		guard = clusterrolebindingpolicy.NewStorage(behind, p.Authorizer, p.Rules)
	case *rbac.Role:
		guard = rolepolicy.NewStorage(behind, p.Authorizer, p.Rules)
	case *rbac.RoleBinding:
		guard = rolebindingpolicy.NewStorage(behind, p.Authorizer, p.Rules)
	}
	if old == nil {
		_, err := guard.Create(ctx, obj, nil, nil)
		return err
	}
	_, _, err := guard.Update(ctx, "", rest.DefaultUpdatedObjectInfo(obj), nil, nil, false, nil)
	return err
}

// Roles and bindings are refused when upstream refuses them, in its words.
func TestEscalationAsUpstream(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var refused, permitted int
	for range 20_000 {
		if compareEscalation(t, r) {
			permitted++
		} else {
			refused++
		}
	}
	if refused < 1000 || permitted < 1000 {
		t.Errorf("%d refused, %d permitted", refused, permitted)
	}
}

// compareEscalation compares the answer about a write of a role or binding, and reports whether it was permitted.
func compareEscalation(t *testing.T, r choices) bool {
	t.Helper()
	rules := held{rules: randomRules(r, 8), roles: map[string][]rbacv1.PolicyRule{"/a": randomRules(r, 4), "ns/a": randomRules(r, 4)}}
	switch r.IntN(4) {
	case 0:
		rules.err = errors.New("a role is missing")
	case 1:
		rules.rules = append(rules.rules, fullAuthority...)
	}
	obj, old := randomRBAC(r)
	who := &user.DefaultInfo{Name: "jane", Groups: []string{"g"}}
	if r.IntN(20) == 0 {
		who.Groups = append(who.Groups, user.SystemPrivilegedGroup)
	}
	ctx := genericapirequest.WithUser(t.Context(), who)
	if _, namespaced := obj.(*rbac.RoleBinding); namespaced || r.IntN(2) == 0 {
		ctx = genericapirequest.WithNamespace(ctx, "ns")
	}
	p := Parts{Rules: rules}
	got, want := escalation{p}.check(ctx, obj, old), upstreams(ctx, p, obj, old)
	if diff := cmp.Diff(fmt.Sprintf("%T %[1]v", want), fmt.Sprintf("%T %[1]v", got)); diff != "" {
		t.Fatalf("%T %[1]v, before %v, rules %v:\n%s", obj, old, rules, diff)
	}
	return got == nil
}

// randomRBAC returns a role or binding, and its state before an update or nil.
func randomRBAC(r choices) (obj, old runtime.Object) {
	rules := func() (rules []rbac.PolicyRule) {
		for _, of := range randomRules(r, 3) {
			rules = append(rules, rbac.PolicyRule{Verbs: of.Verbs, APIGroups: of.APIGroups, Resources: of.Resources, ResourceNames: of.ResourceNames,
				NonResourceURLs: of.NonResourceURLs})
		}
		return rules
	}
	m := metav1.ObjectMeta{Name: "x"}
	some := func(kind int) runtime.Object {
		if kind > 0 {
			return &rbac.Role{ObjectMeta: m, Rules: rules()}
		}
		c := &rbac.ClusterRole{ObjectMeta: m, Rules: rules()}
		if r.IntN(4) == 0 {
			c.AggregationRule = &rbac.AggregationRule{ClusterRoleSelectors: make([]metav1.LabelSelector, r.IntN(2))}
		}
		return c
	}
	ref := func() rbac.RoleRef {
		return rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: someOfOne(r, "a", "b")}
	}
	switch r.IntN(4) {
	case 0:
		obj, old = &rbac.RoleBinding{ObjectMeta: m, RoleRef: ref()}, &rbac.RoleBinding{ObjectMeta: m, RoleRef: ref()}
	case 1:
		obj, old = &rbac.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref()}, &rbac.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref()}
	default:
		kind := r.IntN(2)
		obj, old = some(kind), some(kind)
	}
	switch r.IntN(4) {
	case 0:
		return obj, nil
	case 1:
		old = obj.DeepCopyObject()
		old.(metav1.Object).SetFinalizers([]string{"a.b/c"})
	}
	return obj, old
}

func someOfOne(r choices, of ...string) string { return of[r.IntN(len(of))] }

// A refusal begins with upstream's words and is of bounded size.
func TestEscalationOfManyCombinations(t *testing.T) {
	ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "jane", Groups: []string{"g"}})
	const begins = `user "jane" (groups=["g"]) is attempting to grant RBAC permissions `
	e := escalation{Parts{Rules: held{}}}
	err := e.confirm(ctx, []rbacv1.PolicyRule{hundred()})
	if err == nil || !strings.HasPrefix(err.Error(), begins+"not currently held:\n{APIGroups:[\"g0\"]") || !strings.HasSuffix(err.Error(), "there may be more)") {
		t.Errorf("got %.300v", err)
	}
	long := rbacv1.PolicyRule{APIGroups: []string{strings.Repeat("g", 1<<18)}, Resources: numbered("r", 100), Verbs: numbered("v", 100)}
	if err = e.confirm(ctx, []rbacv1.PolicyRule{long}); err == nil || len(err.Error()) > 4<<20 {
		t.Errorf("a refusal is of any size")
	}
}
