package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	nodeauthorizer "k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// upstreams returns the decisions of kube-apiserver's authorizers, Node and RBAC, on a server's stored objects. No Pod is on a node.
func upstreams(t *testing.T, s *sectionServer) func(decision) bool {
	t.Helper()
	roles, clusterRoles := listed[rbacv1.RoleList](t, s, "roles"), listed[rbacv1.ClusterRoleList](t, s, "clusterroles")
	bindings, clusterBindings := listed[rbacv1.RoleBindingList](t, s, "rolebindings"), listed[rbacv1.ClusterRoleBindingList](t, s, "clusterrolebindings")
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	r, cr, b, cb := indexer(), indexer(), indexer(), indexer()
	for i := range roles.Items {
		_ = r.Add(&roles.Items[i]) // the key function cannot fail for an object
	}
	for i := range clusterRoles.Items {
		_ = cr.Add(&clusterRoles.Items[i])
	}
	for i := range bindings.Items {
		_ = b.Add(&bindings.Items[i])
	}
	for i := range clusterBindings.Items {
		_ = cb.Add(&clusterBindings.Items[i])
	}
	nodes := nodeauthorizer.NewAuthorizer(nodeauthorizer.NewGraph(), nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())
	roleBased := rbac.New(&rbac.RoleGetter{Lister: rbaclisters.NewRoleLister(r)}, &rbac.RoleBindingLister{Lister: rbaclisters.NewRoleBindingLister(b)},
		&rbac.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(cr)}, &rbac.ClusterRoleBindingLister{Lister: rbaclisters.NewClusterRoleBindingLister(cb)})
	return func(row decision) bool {
		decides, _, _ := nodes.Authorize(t.Context(), row.attributes())
		if decides != authorizer.DecisionAllow {
			decides, _, _ = roleBased.Authorize(t.Context(), row.attributes())
		}
		return decides == authorizer.DecisionAllow
	}
}

func listed[T any](t *testing.T, s *sectionServer, resource string) (list T) {
	t.Helper()
	a := s.send(t, step{Send: "GET /apis/rbac.authorization.k8s.io/v1/" + resource}, nil)
	if err := json.Unmarshal(a.text, &list); err != nil || a.code != http.StatusOK {
		t.Fatalf("%s: %d %v", resource, a.code, err)
	}
	return list
}

// checkPolicies compares the roles and bindings of the first server after its start, object by object, with those of the others, or of upstream's
// bootstrap policy if there is no other.
func checkPolicies(t *testing.T, servers []*sectionServer) {
	t.Helper()
	var roles []rbacv1.Role
	for _, of := range bootstrappolicy.NamespaceRoles() {
		roles = append(roles, of...)
	}
	var bindings []rbacv1.RoleBinding
	for _, of := range bootstrappolicy.NamespaceRoleBindings() {
		bindings = append(bindings, of...)
	}
	for resource, wanted := range map[string]any{
		"clusterroles":        slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()),
		"clusterrolebindings": slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()),
		"roles":               roles, "rolebindings": bindings,
	} {
		is := byName(t, listed[struct{ Items []any }](t, servers[0], resource).Items)
		if len(servers) == 1 {
			if diff := cmp.Diff(byName(t, wanted), is); diff != "" {
				t.Errorf("%s differ from upstream's policy (-want +got):\n%s", resource, diff)
			}
		}
		for _, peer := range servers[1:] {
			if diff := cmp.Diff(byName(t, listed[struct{ Items []any }](t, peer, resource).Items), is); diff != "" {
				t.Errorf("%s differ from those of %s (-want +got):\n%s", resource, peer.name, diff)
			}
		}
	}
}

// byName returns objects by namespace and name, without the metadata that a server sets.
func byName(t *testing.T, items any) map[string]map[string]any {
	t.Helper()
	text, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	objects := map[string]map[string]any{}
	for _, o := range list {
		m, ok := o["metadata"].(map[string]any)
		if !ok {
			t.Fatalf("an object without metadata: %v", o)
		}
		for _, set := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			delete(m, set)
		}
		namespace, _ := m["namespace"].(string) // cluster-wide ones have none
		name, _ := m["name"].(string)
		objects[namespace+"/"+name] = o
	}
	return objects
}
