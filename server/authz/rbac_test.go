package authz_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// words returns the parts of a reason or an error, sorted, because upstream reads bindings in any order.
func words(s string) []string {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(s, "RBAC: "), "[]"), ", ")
	slices.Sort(parts)
	return parts
}

// Every decision, and every list of rules but for repeats, equals that of upstream's RBACAuthorizer, whatever roles and bindings come and go.
func TestRBACIsUpstreams(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := policies{fixture: newFixture(t), lists: newLists(), choices: rand.New(rand.NewPCG(seed, 1))}
			p.change = func(op resources.Op, w resources.Write) {
				if op != resources.Create {
					w = p.now(op, w)
				}
				p.commit(w)
			}
			ours := authz.NewRBAC(p.store)
			allow := 0
			for range 150 {
				p.step()
				for range 30 {
					allow += p.compare(ours)
				}
			}
			if allow < 100 {
				t.Errorf("only %d requests were allowed: nothing was compared", allow)
			}
		})
	}
}

// FuzzRBACIsUpstreams is TestRBACIsUpstreams with policies, changes and requests of any bytes.
func FuzzRBACIsUpstreams(f *testing.F) {
	random := rand.NewChaCha8([32]byte{1})
	for n := range 20 {
		seed := make([]byte, 40*n)
		_, _ = random.Read(seed)
		f.Add(seed)
	}
	catalog := fixtureOf(f, nil).catalog
	f.Fuzz(func(t *testing.T, bytes []byte) {
		bytes = bytes[:min(len(bytes), 2000)]
		chosen := &chosen{bytes}
		p := policies{fixture: fixture{t, nil, catalog}, lists: newLists(), choices: chosen}
		ours, apply := authz.NewDetachedRBAC()
		p.change = func(op resources.Op, w resources.Write) {
			if err := apply(&resources.Event{Op: op, Object: resources.NewObject(w.Key, w.Draft, 1)}); err != nil {
				t.Fatal(err)
			}
		}
		for len(chosen.bytes) > 0 {
			p.step()
			for range 1 + p.IntN(3) {
				p.compare(ours)
			}
		}
	})
}

// compare compares the decision about a request, and the rules of its user, with upstream's. It returns 1 if the request was allowed.
func (p policies) compare(ours *authz.RBAC) (allow int) {
	p.Helper()
	theirs, q := rbac.New(p.lists, p.lists, p.lists, p.lists), p.question()
	want, wantReason, _ := theirs.Authorize(p.Context(), q)
	got, reason, err := ours.Authorize(p.Context(), q)
	if got != want || err != nil {
		p.Fatalf("%+v of %+v: %v %v, want %v %s", q, q.User, got, err, want, wantReason)
	}
	if got == authorizer.DecisionAllow {
		allow = 1
	} else if diff := cmp.Diff(words(wantReason), words(reason)); diff != "" {
		p.Fatalf("%+v of %+v (-want +got):\n%s", q, q.User, diff)
	}
	p.compareRules(q.User, q.Namespace, ours, theirs)
	return allow
}

func (p policies) compareRules(who user.Info, namespace string, ours, theirs authorizer.RuleResolver) {
	p.Helper()
	wantOf, wantOthers, _, wantErr := theirs.RulesFor(p.Context(), who, namespace)
	of, others, incomplete, err := ours.RulesFor(p.Context(), who, namespace)
	texts := func(of []authorizer.ResourceRuleInfo, others []authorizer.NonResourceRuleInfo) (list []string) {
		for _, r := range of {
			list = append(list, fmt.Sprint(r.GetVerbs(), r.GetAPIGroups(), r.GetResources(), r.GetResourceNames()))
		}
		for _, r := range others {
			list = append(list, fmt.Sprint(r.GetVerbs(), r.GetNonResourceURLs()))
		}
		slices.Sort(list)
		return slices.Compact(list) // upstream repeats the rules of a role for each of its bindings
	}
	if diff := cmp.Diff(texts(wantOf, wantOthers), texts(of, others)); diff != "" || incomplete {
		p.Fatalf("rules (-want +got):\n%s", diff)
	}
	if (err == nil) != (wantErr == nil) || err != nil && cmp.Diff(words(wantErr.Error()), words(err.Error())) != "" {
		p.Fatalf("%v, want %v", err, wantErr)
	}
}

// A list of rules has those of a role once, however many bindings there are.
func TestRulesOfManyBindings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects := []rbacv1.Subject{{Kind: "Group", Name: "g"}, {Kind: "User", Name: "u"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "a"}}
	for i := range 50 {
		role.Rules = append(role.Rules, rule([]string{"get"}, []string{""}, []string{fmt.Sprint("kind", i)}))
	}
	writes := []resources.Write{f.write(roles, role)}
	for i := range 50 {
		writes = append(writes, f.write(roleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i), Namespace: "a"},
			RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: subjects[i%2:]}))
	}
	f.commit(writes...)
	ours := authz.NewRBAC(f.store)
	who := &user.DefaultInfo{Name: "u", Groups: []string{"g"}}
	if of, _, _, err := ours.RulesFor(t.Context(), who, "a"); len(of) != len(role.Rules) || err != nil {
		t.Errorf("%d rules, want %d: %v", len(of), len(role.Rules), err)
	}
	got, err := ours.Rules().RulesFor(t.Context(), who, "a")
	if diff := cmp.Diff(role.Rules, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A decision by the bootstrap policy has upstream's reason.
func TestReasons(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit(
		f.write(clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule([]string{"get"}, []string{""}, []string{"pods"})}}),
		f.write(clusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "c"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: "g"}}}),
		f.write(roleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "a"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "sa"}}}))
	ours := authz.NewRBAC(f.store)
	for _, c := range []struct {
		who  user.DefaultInfo
		want string
	}{
		{user.DefaultInfo{Name: "u", Groups: []string{"g"}}, `RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "r" to Group "g"`},
		{user.DefaultInfo{Name: "system:serviceaccount:a:sa"}, `RBAC: allowed by RoleBinding "b/a" of ClusterRole "r" to ServiceAccount "sa/a"`},
	} {
		if _, got, _ := ours.Authorize(t.Context(), ask(&c.who, "get", "a", "pods", "")); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// A permission that is granted or revoked takes effect with the next request after the write was answered, even with many
// writers. On another server of the database it takes a moment.
func TestRightsFollowWrites(t *testing.T) {
	t.Parallel()
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) {
		f := fixtureOf(t, stores[0])
		f.commit(f.write(clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule([]string{"get"}, []string{""}, []string{"pods"})}}))
		here := authz.NewRBAC(stores[0])
		elsewhere := authz.NewRBAC(stores[len(stores)-1])
		var work sync.WaitGroup
		for w := range 4 {
			work.Go(func() {
				who := &user.DefaultInfo{Name: fmt.Sprint("user", w)}
				b := f.write(clusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: who.Name},
					RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: who.Name}}})
				for range 15 {
					for _, now := range []bool{true, false} {
						write := b
						if !now {
							write = f.now(resources.Delete, b)
						}
						if _, err := f.store.Commit(t.Context(), write); err != nil {
							t.Error(err)
							return
						}
						if allowed(t, here, ask(who, "get", "a", "pods", "")) != now {
							t.Errorf("%s: want %v with the next request", who.Name, now)
							return
						}
						for deadline := time.Now().Add(time.Minute); allowed(t, elsewhere, ask(who, "get", "a", "pods", "")) != now; {
							if time.Now().After(deadline) {
								t.Errorf("%s: another server never said %v", who.Name, now)
								return
							}
							time.Sleep(time.Millisecond)
						}
					}
				}
			})
		}
		work.Wait()
	})
}

// A role that loses a permission before it is bound never grants that permission.
func TestNoStateThatNeverWas(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wide := rule([]string{"get"}, []string{""}, []string{"secrets"})
	r := f.write(clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{wide}})
	narrow := f.write(clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}})
	who := &user.DefaultInfo{Name: "u"}
	b := f.write(clusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}}})
	f.commit(r)
	a := authz.NewRBAC(f.store)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for range 2 {
		work.Go(func() {
			for ctx.Err() == nil {
				if allowed(t, a, ask(who, "get", "a", "secrets", "")) {
					t.Error("a right that was never given")
					return
				}
			}
		})
	}
	for range 100 {
		f.commit(f.now(resources.Update, narrow))
		f.commit(b)
		f.commit(f.now(resources.Delete, b))
		f.commit(f.now(resources.Update, r))
	}
	stop()
	work.Wait()
}
