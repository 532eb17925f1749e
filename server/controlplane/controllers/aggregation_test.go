package controllers_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/rbac"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

// An aggregated ClusterRole has the rules of all roles that its selectors match, as these come and go.
func TestClusterRoleAggregation(t *testing.T) {
	c := newCluster(t)
	c.serve()
	c.change = append(c.change, func(o *controllers.Config) { o.Enabled = []string{controllers.ClusterRoleAggregation} })
	const resource = "clusterroles.rbac.authorization.k8s.io"
	part := func(name, what string) *resources.Object {
		return c.create(resource, &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"to": "all"}},
			Rules: []rbac.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{what}}}})
	}
	part("a", "pods")
	c.create(resource, &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		AggregationRule: &rbac.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to": "all"}}}}})
	c.start()
	has := func(what string, want ...string) {
		t.Helper()
		c.until(what, resources.Key{Resource: resource, Name: "all"}, func(o *resources.Object) bool {
			rules := decode[rbacv1.ClusterRole](t, o).Rules
			if len(rules) != len(want) {
				return false
			}
			for i, name := range want {
				if rules[i].Resources[0] != name {
					return false
				}
			}
			return true
		})
	}
	has("what was there", "pods")
	b := part("b", "secrets")
	has("what came", "pods", "secrets")
	c.delete(b, metav1.DeletePropagationBackground)
	has("what stays", "pods")
}
