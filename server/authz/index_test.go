package authz

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
)

// asker counts how often its groups are read.
type asker struct {
	user.DefaultInfo
	asked int
}

func (a *asker) GetGroups() []string {
	a.asked++
	return a.Groups
}

func groupsOf(prefix string, n int) (subjects []rbacv1.Subject, names []string) {
	for i := range n {
		name := fmt.Sprintf("%s%06d", prefix, i)
		subjects, names = append(subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: name}), append(names, name)
	}
	return subjects, names
}

// A subject that a binding repeats is one grant, the first: otherwise each request of the user would compare all of them.
func TestRepeatedSubject(t *testing.T) {
	others, _ := groupsOf("other", 100)
	again := rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "g"}
	key := resources.Key{Resource: roleBindingsResource, Namespace: "a", Name: "b"}
	p := newPolicy()
	is := stored{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: others}
	for range 100 {
		is.Subjects = append(is.Subjects, again)
	}
	p.bind(key, is)
	if of := p.grants["a"][subject{group: true, name: "g"}]; len(of) != 1 || of[0].subject != 100 {
		t.Errorf("the grants are %v", of)
	}
	p.unbind(key)
	if len(p.grants) > 0 || len(p.roles) > 0 {
		t.Errorf("%v and %v are left", p.grants, p.roles)
	}
}

// However many groups a user has, and a binding names, the groups are read once or twice, and a binding is visited once, for its first subject.
func TestManyGroups(t *testing.T) {
	const n = 2000
	others, _ := groupsOf("other", n)
	own, names := groupsOf("own", n)
	p := newPolicy()
	p.bind(resources.Key{Resource: roleBindingsResource, Namespace: "a", Name: "b"}, stored{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: append(others, own...)})
	who := &asker{DefaultInfo: user.DefaultInfo{Name: "u", Groups: append(names, names...)}}
	visited := 0
	p.visit(who, "a", func(g grant) bool {
		visited++
		if g.subject != n {
			t.Errorf("visited for subject %d, want the first, %d", g.subject, n)
		}
		return true
	})
	if visited != 1 || who.asked > 2 {
		t.Errorf("visited %d times, and the groups were read %d times", visited, who.asked)
	}
}
