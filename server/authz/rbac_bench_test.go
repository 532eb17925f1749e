package authz_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authz"
)

// BenchmarkAuthorize measures a decision by the number of namespaces and bindings.
func BenchmarkAuthorize(b *testing.B) {
	for _, c := range []struct {
		name                 string
		namespaces, bindings int
		own                  int // bindings of the user, in the namespace asked for
	}{{"Of100Bindings", 1, 0, 100}, {"Of10000In1000Namespaces", 1000, 10, 10}} {
		b.Run(c.name, func(b *testing.B) {
			f := newFixture(b)
			var writes []resources.Write
			for n := range c.namespaces {
				for i := range c.bindings {
					writes = append(writes, bound(f, fmt.Sprint("ns", n), fmt.Sprint("other", i), fmt.Sprint("other", i))...)
				}
			}
			for i := range c.own {
				writes = append(writes, bound(f, "ns0", fmt.Sprint("own", i), "me")...)
			}
			for part := range slices.Chunk(writes, 1000) {
				f.commit(part...)
			}
			for _, r := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
				f.commit(f.write(clusterRoles, &r))
			}
			for _, r := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
				f.commit(f.write(clusterRoleBindings, &r))
			}
			a := authz.NewRBAC(f.store)
			who := &user.DefaultInfo{Name: "me", Groups: []string{"system:authenticated"}}
			for _, q := range []struct{ name, verb, resource, object string }{
				{"Allowed", "get", fmt.Sprint("things", c.own-1), "x"},
				{"Refused", "get", "secrets", "x"},
				{"RefusedByVerb", "delete", "pods", "x"},
				{"RefusedByName", "get", "leases", "x"},
			} {
				b.Run(q.name, func(b *testing.B) {
					asked := ask(who, q.verb, "ns0", q.resource, q.object)
					if allowed(b, a, asked) != (q.name == "Allowed") {
						b.Fatal("wrong")
					}
					b.ReportAllocs()
					for b.Loop() {
						_, _, _ = a.Authorize(b.Context(), asked)
					}
				})
			}
		})
	}
}

// bound returns writes of a Role with three rules, and of a binding of a user to it.
func bound(f fixture, namespace, name, who string) []resources.Write {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	thing := "things" + strings.TrimLeft(name, "ownther")
	return []resources.Write{
		f.write(roles, &rbacv1.Role{ObjectMeta: m, Rules: []rbacv1.PolicyRule{
			rule([]string{"get", "list", "watch"}, []string{""}, []string{"pods", "services", "configmaps"}),
			rule([]string{"get", "list", "watch"}, []string{"", "apps"}, []string{thing}),
			{Verbs: []string{"get", "update"}, APIGroups: []string{""}, Resources: []string{"leases"}, ResourceNames: []string{name}},
		}}),
		f.write(roleBindings, &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: who}}}),
	}
}
