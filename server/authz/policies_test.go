package authz_test

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
)

// lists are roles and bindings as upstream's RBACAuthorizer reads them.
type lists struct {
	roles               map[string]*rbacv1.Role
	clusterRoles        map[string]*rbacv1.ClusterRole
	roleBindings        map[string]*rbacv1.RoleBinding
	clusterRoleBindings map[string]*rbacv1.ClusterRoleBinding
}

func newLists() lists {
	return lists{map[string]*rbacv1.Role{}, map[string]*rbacv1.ClusterRole{}, map[string]*rbacv1.RoleBinding{}, map[string]*rbacv1.ClusterRoleBinding{}}
}

func (l lists) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	if r := l.roles[namespace+"/"+name]; r != nil {
		return r, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("role"), name)
}

func (l lists) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	if r := l.clusterRoles[name]; r != nil {
		return r, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), name)
}

func (l lists) ListRoleBindings(_ context.Context, namespace string) (in []*rbacv1.RoleBinding, _ error) {
	for _, b := range l.roleBindings {
		if b.Namespace == namespace {
			in = append(in, b)
		}
	}
	return in, nil
}

func (l lists) ListClusterRoleBindings(context.Context) (all []*rbacv1.ClusterRoleBinding, _ error) {
	for _, b := range l.clusterRoleBindings {
		all = append(all, b)
	}
	return all, nil
}

// policies are roles and bindings by choice, as lists and in whatever change changes.
type policies struct {
	fixture
	lists
	choices
	change func(resources.Op, resources.Write)
}

// choices chooses a number below n.
type choices interface{ IntN(n int) int }

func (p policies) some(from ...string) (list []string) {
	for range 1 + p.IntN(2) {
		list = append(list, from[p.IntN(len(from))])
	}
	return list
}

func (p policies) one(from ...string) string { return from[p.IntN(len(from))] }

var (
	someUsers  = []string{"ann", "bob", "system:serviceaccount:a:sa", "system:serviceaccount:b:sa"}
	someGroups = []string{"g1", "g2", "system:authenticated"}
	someVerbs  = []string{"get", "list", "create", "*", "escalate"}
	someKinds  = []string{"pods", "pods/log", "*/scale", "secrets", "*", "deployments", "pods/*", "*/*", "/log", "*/", "", "log"}
	somePaths  = []string{"/healthz", "/healthz/*", "/api*", "*", "/metrics", "/heal**", ""}
	someNames  = []string{"x", "y"}
	spaces     = []string{"a", "b"}
)

func (p policies) rules() (rules []rbacv1.PolicyRule) {
	for range 1 + p.IntN(4) {
		r := rule(p.some(someVerbs...), p.some("", "apps", "*"), p.some(someKinds...))
		if p.IntN(3) == 0 {
			r.ResourceNames = p.some(someNames...)
		}
		if p.IntN(4) == 0 {
			r = rbacv1.PolicyRule{Verbs: p.some(someVerbs...), NonResourceURLs: p.some(somePaths...)}
		}
		rules = append(rules, r)
	}
	return rules
}

func (p policies) subjects() (subjects []rbacv1.Subject) {
	for range p.IntN(6) {
		switch p.IntN(4) {
		case 3:
			subjects = append(subjects, rbacv1.Subject{Kind: "Other", Name: p.one(someUsers...)})
		case 0:
			subjects = append(subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: p.one(someUsers...)})
		case 1:
			subjects = append(subjects, rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: p.one(someGroups...)})
		case 2:
			subjects = append(subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: p.one("a", "b", ""), Name: "sa"})
		}
	}
	return subjects
}

// step changes one of the objects in both.
func (p policies) step() {
	p.Helper()
	space, name := p.one(spaces...), p.one("1", "2", "3")
	m := metav1.ObjectMeta{Name: name}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: p.one("Role", "ClusterRole", "ClusterRole", "Other"), Name: p.one("1", "2", "3", "none")}
	gone := p.IntN(6) == 0
	switch p.IntN(4) {
	case 0:
		obj := &rbacv1.ClusterRole{ObjectMeta: m, Rules: p.rules()}
		put(p, p.clusterRoles, clusterRoles, name, obj, gone)
	case 1:
		m.Namespace = space
		put(p, p.roles, roles, space+"/"+name, &rbacv1.Role{ObjectMeta: m, Rules: p.rules()}, gone)
	case 2:
		put(p, p.clusterRoleBindings, clusterRoleBindings, name, &rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: p.subjects()}, gone)
	case 3:
		m.Namespace = space
		put(p, p.roleBindings, roleBindings, space+"/"+name, &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: p.subjects()}, gone)
	}
}

func put[T runtime.Object](p policies, in map[string]T, resource, key string, obj T, gone bool) {
	p.Helper()
	op := resources.Create
	_, there := in[key]
	switch {
	case gone && !there:
		return
	case gone:
		delete(in, key)
		op = resources.Delete
	default:
		in[key] = obj
		if there {
			op = resources.Update
		}
	}
	p.change(op, p.write(resource, obj))
}

func (p policies) question() authorizer.AttributesRecord {
	who := &user.DefaultInfo{Name: p.one(someUsers...), Groups: p.some(someGroups...)}
	if p.IntN(4) == 0 { // so many that they are looked up
		for i := range 40 {
			who.Groups = append(who.Groups, fmt.Sprint("other", i), p.one(someGroups...))
		}
	}
	if p.IntN(4) == 0 {
		return authorizer.AttributesRecord{User: who, Verb: p.one("get", "list"), Path: p.one("/healthz", "/healthz/etcd", "/api/v1", "/metrics", "/x")}
	}
	q := ask(who, p.one("get", "list", "create", "delete"), p.one("a", "b", ""), p.one("pods", "secrets", "deployments"), p.one("x", "y", ""))
	q.APIGroup, q.Subresource = p.one("", "apps"), p.one("", "", "log", "scale", "*")
	return q
}

// chosen are choices by bytes, and the first choice when there are none left.
type chosen struct{ bytes []byte }

// IntN implements choices.
func (c *chosen) IntN(n int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	one := int(c.bytes[0]) % n
	c.bytes = c.bytes[1:]
	return one
}
