package history

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// RoleName is the name of the role that reads the history, and of its binding.
const RoleName = "rowlock:object-history"

// Role allows reading the history. It does not suffice by itself: the rights on the object are checked besides
// (allowed.go).
func Role() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: policyMeta(), Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list"}, APIGroups: []string{GroupName}, Resources: []string{Revisions, ClusterRevisions, Trash, ClusterTrash}},
	}}
}

// Binding gives the role to all authenticated users: a user who may get an object may read its history.
func Binding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: policyMeta(),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: RoleName},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: user.AllAuthenticated}},
	}
}

// policyMeta is the metadata of upstream's bootstrap policy.
func policyMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: RoleName, Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}}
}
