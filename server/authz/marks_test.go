package authz

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
)

// The marks of a role never exclude a rule that matches the resource.
func TestMarks(t *testing.T) {
	rules := []string{"*", "pods", "pods/log", "pods/*", "*/log", "*/*", "*/scale", "deployments/scale", "log", "*/", "", "Pods"}
	differ := 0
	for _, ruled := range rules {
		rule := rbacv1.PolicyRule{Resources: []string{"nodes", ruled}}
		about := marksOf([]rbacv1.PolicyRule{{NonResourceURLs: []string{"/version"}}, rule})
		for _, resource := range []string{"pods", "deployments", "nodes", "secrets", "*", "", "log", "Pods"} {
			for _, subresource := range []string{"", "log", "scale", "*", "status"} {
				q := newQuestion(authorizer.AttributesRecord{Resource: resource, Subresource: subresource, ResourceRequest: true})
				may := q.about&about != 0
				if rbacv1helpers.ResourceMatches(&rule, q.resource, q.subresource) && !may {
					t.Errorf("a rule for %q is passed over for %s", ruled, q.resource)
				}
				if !may {
					differ++
				}
			}
		}
	}
	if differ == 0 {
		t.Error("nothing is passed over")
	}
	if marksOf(nil) != 0 {
		t.Error("no rules are about something")
	}
}
