package authz

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/rowlock/rowlock/resources"
)

// The types of RBAC, by their names in the store.
const (
	clusterRolesResource        = "clusterroles.rbac.authorization.k8s.io"
	clusterRoleBindingsResource = "clusterrolebindings.rbac.authorization.k8s.io"
	rolesResource               = "roles.rbac.authorization.k8s.io"
	roleBindingsResource        = "rolebindings.rbac.authorization.k8s.io"
)

// roleKey names a role. namespace is empty for a ClusterRole.
type roleKey struct{ kind, namespace, name string }

// role is a role that exists or that a binding refers to.
type role struct {
	key    roleKey
	exists bool
	rules  []rbacv1.PolicyRule
	// about are the resources of the rules. Most roles are ruled out by it, because their rules are about other resources than the request.
	about marks
	// refers counts the bindings that refer to the role.
	refers int
}

// binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	resources.Key
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
	role     *role // nil: the roleRef has an unknown kind
}

// grant is a binding together with one of its subjects.
type grant struct {
	*binding
	subject int
}

// subject is a subject of bindings: a group or a user. A service account is its user.
type subject struct {
	group bool
	name  string
}

// bySubject holds the grants of one namespace, or of none, sorted by role, then by name: grants of one role are adjacent,
// and only the first has to be examined.
type bySubject map[subject][]grant

// policy is the index of RBAC objects.
type policy struct {
	mu       sync.RWMutex
	roles    map[roleKey]*role
	bindings map[resources.Key]*binding
	// grants holds the grants by the namespace of the binding; "" for ClusterRoleBindings.
	grants map[string]bySubject
}

func newPolicy() *policy {
	p := &policy{}
	p.reset()
	return p
}

func (p *policy) reset() {
	p.roles, p.bindings, p.grants = map[roleKey]*role{}, map[resources.Key]*binding{}, map[string]bySubject{}
}

func (p *policy) replace(objects []*resources.Object, events []*resources.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
	for _, o := range objects {
		if err := p.put(o); err != nil {
			return err
		}
	}
	return p.observe(events)
}

func (p *policy) apply(events []*resources.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.observe(events)
}

func (p *policy) observe(events []*resources.Event) error {
	for _, e := range events {
		if e.Op == resources.Delete {
			p.remove(e.Object)
		} else if err := p.put(e.Object); err != nil {
			return err
		}
	}
	return nil
}

// stored has the fields of an RBAC object of any type that the index uses.
type stored struct {
	Rules    []rbacv1.PolicyRule `json:"rules"`
	Subjects []rbacv1.Subject    `json:"subjects"`
	RoleRef  rbacv1.RoleRef      `json:"roleRef"`
}

func (p *policy) put(o *resources.Object) error {
	var is stored
	if err := json.Unmarshal(o.Data, &is); err != nil {
		return &resources.DecodeError{Key: o.Key, Err: err}
	}
	switch o.Resource {
	case clusterRolesResource, rolesResource:
		r := p.role(keyOfRole(o.Key))
		r.exists, r.rules, r.about = true, is.Rules, marksOf(is.Rules)
	default:
		p.unbind(o.Key)
		p.bind(o.Key, is)
	}
	return nil
}

func (p *policy) remove(o *resources.Object) {
	switch o.Resource {
	case clusterRolesResource, rolesResource:
		r := p.role(keyOfRole(o.Key))
		r.exists, r.rules, r.about = false, nil, 0
		p.drop(r)
	default:
		p.unbind(o.Key)
	}
}

func keyOfRole(k resources.Key) roleKey {
	if k.Resource == clusterRolesResource {
		return roleKey{kind: "ClusterRole", name: k.Name}
	}
	return roleKey{"Role", k.Namespace, k.Name}
}

// role returns a role, which may not exist in the store.
func (p *policy) role(k roleKey) *role {
	r := p.roles[k]
	if r == nil {
		r = &role{key: k}
		p.roles[k] = r
	}
	return r
}

// drop forgets a role that does not exist and that no binding refers to.
func (p *policy) drop(r *role) {
	if r != nil && !r.exists && r.refers == 0 {
		delete(p.roles, r.key)
	}
}

// referred returns the role that a binding in a namespace refers to; false when the reference has an unknown kind.
func referred(ref rbacv1.RoleRef, namespace string) (roleKey, bool) {
	switch ref.Kind {
	case "ClusterRole":
		return roleKey{kind: "ClusterRole", name: ref.Name}, true
	case "Role":
		return roleKey{"Role", namespace, ref.Name}, true
	}
	return roleKey{}, false
}

func (p *policy) bind(key resources.Key, is stored) {
	b := &binding{Key: key, ref: is.RoleRef, subjects: is.Subjects}
	if k, ok := referred(b.ref, key.Namespace); ok {
		b.role = p.role(k)
		b.role.refers++
	}
	p.bindings[key] = b
	for i := range b.subjects {
		who, ok := b.who(i)
		if !ok {
			continue
		}
		of := p.grants[key.Namespace]
		if of == nil {
			of = bySubject{}
			p.grants[key.Namespace] = of
		}
		g := grant{b, i}
		at, _ := slices.BinarySearchFunc(of[who], g, compareGrants)
		if at > 0 && of[who][at-1].binding == b {
			continue // an earlier subject is the same, and so comes first for all users
		}
		of[who] = slices.Insert(of[who], at, g)
	}
}

func (p *policy) unbind(key resources.Key) {
	b := p.bindings[key]
	if b == nil {
		return
	}
	delete(p.bindings, key)
	of := p.grants[key.Namespace]
	for i := range b.subjects {
		who, ok := b.who(i)
		if !ok {
			continue
		}
		if at, found := slices.BinarySearchFunc(of[who], grant{b, i}, compareGrants); found {
			of[who] = slices.Delete(of[who], at, at+1)
		}
		if len(of[who]) == 0 {
			delete(of, who)
		}
	}
	if len(of) == 0 {
		delete(p.grants, key.Namespace)
	}
	if b.role != nil {
		b.role.refers--
		p.drop(b.role)
	}
}

func compareGrants(a, b grant) int {
	return cmp.Or(cmp.Compare(a.ref.Kind, b.ref.Kind), cmp.Compare(a.ref.Name, b.ref.Name), cmp.Compare(a.Name, b.Name), cmp.Compare(a.subject, b.subject))
}

// who returns the user or group of a subject of the binding, as upstream's appliesToUser
// (k8s.io/kubernetes/pkg/registry/rbac/validation) defines it. A service account without a namespace is in the namespace of the
// binding.
func (b *binding) who(i int) (subject, bool) {
	switch s := b.subjects[i]; s.Kind {
	case rbacv1.UserKind:
		return subject{name: s.Name}, true
	case rbacv1.GroupKind:
		return subject{group: true, name: s.Name}, true
	case rbacv1.ServiceAccountKind:
		namespace := cmp.Or(s.Namespace, b.Namespace)
		return subject{name: serviceaccount.MakeUsername(namespace, s.Name)}, namespace != metav1.NamespaceAll
	}
	return subject{}, false
}
