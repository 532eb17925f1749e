package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"

	"github.com/rowlock/rowlock/resources"
)

func rbacGroup(p Parts) resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	return single(v1,
		define[rbac.ClusterRole, rbac.ClusterRoleList](v1, "clusterroles", clusterrole.Strategy, table(rest.NewDefaultTableConvertor), unlessEscalating(p)),
		define[rbac.ClusterRoleBinding, rbac.ClusterRoleBindingList](v1, "clusterrolebindings", clusterrolebinding.Strategy, unlessEscalating(p)),
		define[rbac.Role, rbac.RoleList](v1, "roles", role.Strategy, table(rest.NewDefaultTableConvertor), unlessEscalating(p)),
		define[rbac.RoleBinding, rbac.RoleBindingList](v1, "rolebindings", rolebinding.Strategy, unlessEscalating(p)),
	)
}
