package builtin

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	clusterrolepolicy "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	clusterrolebindingpolicy "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	rolepolicy "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	rolebindingpolicy "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"

	"github.com/rowlock/rowlock/resources"
)

func rbacGroup(p Parts) resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	return single(v1,
		define[rbac.ClusterRole, rbac.ClusterRoleList](v1, "clusterroles", clusterrole.Strategy, table(rest.NewDefaultTableConvertor),
			unlessEscalating(p, func(s rest.StandardStorage) guard { return clusterrolepolicy.NewStorage(s, p.Authorizer, p.Rules) })),
		define[rbac.ClusterRoleBinding, rbac.ClusterRoleBindingList](v1, "clusterrolebindings", clusterrolebinding.Strategy,
			unlessEscalating(p, func(s rest.StandardStorage) guard {
				return clusterrolebindingpolicy.NewStorage(s, p.Authorizer, p.Rules)
			})),
		define[rbac.Role, rbac.RoleList](v1, "roles", role.Strategy, table(rest.NewDefaultTableConvertor),
			unlessEscalating(p, func(s rest.StandardStorage) guard { return rolepolicy.NewStorage(s, p.Authorizer, p.Rules) })),
		define[rbac.RoleBinding, rbac.RoleBindingList](v1, "rolebindings", rolebinding.Strategy,
			unlessEscalating(p, func(s rest.StandardStorage) guard { return rolebindingpolicy.NewStorage(s, p.Authorizer, p.Rules) })),
	)
}

// guard is upstream's storage that refuses rights which the user does not have.
type guard interface {
	rest.Creater
	rest.Updater
}

// unlessEscalating passes every written role or binding through a guard. The storage behind the guard stores nothing.
func unlessEscalating(p Parts, guarding func(rest.StandardStorage) guard) option {
	return func(t *resources.Type) {
		if p.Rules == nil {
			return
		}
		t.Permit = func(ctx context.Context, obj, old runtime.Object) error {
			if old == nil {
				_, err := guarding(unguarded{}).Create(ctx, obj, nil, nil)
				return err
			}
			_, _, err := guarding(unguarded{old: old}).Update(ctx, "", rest.DefaultUpdatedObjectInfo(obj), nil, nil, false, nil)
			return err
		}
	}
}

// unguarded is the storage behind a guard.
type unguarded struct {
	rest.StandardStorage // nil

	old runtime.Object
}

// Create implements rest.Creater.
func (u unguarded) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return obj, nil
}

// Update implements rest.Updater.
func (u unguarded) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc,
	_ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, err := info.UpdatedObject(ctx, u.old)
	return obj, false, err
}
