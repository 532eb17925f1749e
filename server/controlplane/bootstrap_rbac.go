package controlplane

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
	"github.com/rowlock/rowlock/resources/history"
)

// bootstrapPolicy returns the roles and bindings of upstream's bootstrap policy, by their types. Where the object history is served, the
// policy includes a role and a binding for its group.
func bootstrapPolicy(catalog *resources.Catalog) map[string][]runtime.Object {
	policy := map[string][]runtime.Object{}
	add := func(resource string, obj runtime.Object) {
		policy[resource+"."+rbacv1.GroupName] = append(policy[resource+"."+rbacv1.GroupName], obj)
	}
	for _, list := range [][]rbacv1.ClusterRole{bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()} {
		for i := range list {
			add("clusterroles", &list[i])
		}
	}
	for _, list := range [][]rbacv1.ClusterRoleBinding{bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()} {
		for i := range list {
			add("clusterrolebindings", &list[i])
		}
	}
	for _, list := range bootstrappolicy.NamespaceRoles() {
		for i := range list {
			add("roles", &list[i])
		}
	}
	for _, list := range bootstrappolicy.NamespaceRoleBindings() {
		for i := range list {
			add("rolebindings", &list[i])
		}
	}
	if history.Served(catalog) {
		add("clusterroles", history.Role())
		add("clusterrolebindings", history.Binding())
	}
	return policy
}

// bootstrapRoles creates the roles and bindings of the bootstrap policy, and adds missing permissions to existing ones by
// upstream's reconciliation. It removes no permissions, so that servers of different releases do not revert each other's work. It
// leaves objects with the annotation rbac.authorization.kubernetes.io/autoupdate=false alone.
func (p *Plane) bootstrapRoles(ctx context.Context, all group) error {
	catalog := p.Registry.Catalog()
	for resource, wanted := range bootstrapPolicy(catalog) {
		t, ok := catalog.Type(resource)
		if !ok {
			continue
		}
		there, err := p.Store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
		if err != nil {
			return err
		}
		manager, err := t.ServerManager("")
		if err != nil {
			return err
		}
		if err := p.aggregate(ctx, t, manager, there); err != nil {
			return err
		}
		for _, want := range wanted {
			if want, err = p.split(t, there, want); err != nil {
				return err
			}
			if lacks, err := p.lacks(t, there, want); err != nil {
				return err
			} else if lacks {
				all.Go(func() error { return p.reconcile(ctx, t, manager, want) })
			}
		}
	}
	return nil
}

// aggregate creates the ClusterRoles from which admin, edit and view are aggregated, as copies of these, where an earlier release of
// Kubernetes stored them with rules of their own. The rules that an administrator added would be lost otherwise: the rules of an
// aggregated role are replaced. So aggregate ends before the roles themselves are reconciled.
func (p *Plane) aggregate(ctx context.Context, t *resources.Type, manager *fieldmanager.Manager, all resources.Snapshot) error {
	for from, to := range bootstrappolicy.ClusterRolesToAggregate() {
		o := all.Get("", from)
		if o == nil || all.Get("", to) != nil {
			continue
		}
		existing, err := t.DecodeStored(o)
		if err != nil {
			return err
		}
		role, ok := existing.(*rbacv1.ClusterRole)
		if !ok || role.AggregationRule != nil {
			continue
		}
		role.Name, role.UID, role.ResourceVersion, role.CreationTimestamp, role.ManagedFields = to, "", "", metav1.Time{}, nil
		if err := p.reconcile(ctx, t, manager, role); err != nil {
			return err
		}
	}
	return nil
}

// split returns the wanted form of a binding. When the binding is missing, but the binding exists by which an earlier release of
// Kubernetes granted the same permissions, the new one takes its subjects, labels and annotations. An administrator who removed
// subjects from the old binding thus does not grant them permissions again with the next release.
func (p *Plane) split(t *resources.Type, all resources.Snapshot, want runtime.Object) (runtime.Object, error) {
	binding, ok := want.(*rbacv1.ClusterRoleBinding)
	if !ok || all.Get("", binding.Name) != nil {
		return want, nil
	}
	for from, to := range bootstrappolicy.ClusterRoleBindingsToSplit() {
		o := all.Get("", from)
		if to.Name != binding.Name || o == nil {
			continue
		}
		existing, err := t.DecodeStored(o)
		if err != nil {
			return nil, err
		}
		source, ok := existing.(*rbacv1.ClusterRoleBinding)
		if !ok {
			return nil, fmt.Errorf("%T is not a binding of a cluster role", existing)
		}
		to.Subjects, to.Labels, to.Annotations = source.Subjects, source.Labels, source.Annotations
		into, _, err := p.reconciled(t, &to, want)
		if err != nil || into != nil {
			return into, err
		}
		return &to, nil
	}
	return want, nil
}

// lacks tells whether a role or binding is missing, or lacks part of the wanted one.
func (p *Plane) lacks(t *resources.Type, all resources.Snapshot, want runtime.Object) (bool, error) {
	m, err := meta.Accessor(want)
	if err != nil {
		return false, err
	}
	o := all.Get(m.GetNamespace(), m.GetName())
	if o == nil {
		return true, nil
	}
	existing, err := t.DecodeStored(o)
	if err != nil {
		return false, err
	}
	if same(existing, want) {
		return false, nil
	}
	result, _, err := p.reconciled(t, existing, want)
	return result != nil, err
}

// same tells whether two objects have the same content. They nearly always have, and this check takes a tenth of the
// time of the full reconciliation.
func same(existing, want runtime.Object) bool {
	is, err := meta.Accessor(existing)
	if err != nil {
		return false
	}
	is.SetManagedFields(nil)
	copied := want.DeepCopyObject()
	if m, err := meta.Accessor(copied); err == nil {
		m.SetUID(is.GetUID())
		m.SetResourceVersion(is.GetResourceVersion())
		m.SetCreationTimestamp(is.GetCreationTimestamp())
	}
	copied.GetObjectKind().SetGroupVersionKind(existing.GetObjectKind().GroupVersionKind())
	return apiequality.Semantic.DeepEqual(existing, copied)
}

// reconcile creates or changes a role or a binding.
func (p *Plane) reconcile(ctx context.Context, t *resources.Type, manager *fieldmanager.Manager, want runtime.Object) error {
	m, err := meta.Accessor(want)
	if err != nil {
		return err
	}
	for {
		another, uid := false, types.UID("")
		change := func(exists bool, obj runtime.Object) (err error) {
			into := want.DeepCopyObject()
			if exists {
				existing, err := t.ToVersion(obj, t.StorageVersion)
				if err != nil {
					return err
				}
				if into, another, err = p.reconciled(t, existing, want); err != nil || into == nil || another {
					if is, metaErr := meta.Accessor(obj); metaErr == nil {
						uid = is.GetUID()
					}
					return err
				}
			}
			if into, err = t.ToHub(into); err != nil {
				return err
			}
			reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(into).Elem())
			return nil
		}
		err = p.ensureWanted(ctx, wanted{t, m.GetNamespace(), m.GetName(), change, manager, resources.ServerManagerName})
		if err != nil || !another {
			return err
		}
		// The roleRef of a binding is immutable. Another server may have recreated the binding meanwhile: the UID
		// limits the delete to the one that was read.
		r := resources.DeleteRequest{Type: t, Name: m.GetName(), Options: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}}
		key := t.KeyOf(m.GetNamespace(), m.GetName())
		d, err := p.Pipeline.Delete(resources.APIServer.Request(ctx, "delete", t, key), &r)
		if err == nil && !d.Gone {
			return apierrors.NewConflict(t.GroupResource, m.GetName(), errors.New("finalizers keep it")) // as if it was refused
		}
		if err = resources.UnlessGone(ctx, p.Store, key, uid, 0, err); err != nil {
			return fmt.Errorf("delete %s %s: %w", t.Resource, m.GetName(), err)
		}
	}
}

// reconciled returns the new form of an object, nil when it stays unchanged. another: the object has to be deleted and recreated.
// It warns of what an object lacks that is not to be updated.
func (p *Plane) reconciled(t *resources.Type, existing, want runtime.Object) (into runtime.Object, another bool, err error) {
	var role reconciliation.ReconcileRoleOptions
	var binding reconciliation.ReconcileRoleBindingOptions
	switch is := existing.(type) {
	case *rbacv1.ClusterRole:
		role.Client, role.Role = oneRole{owner: reconciliation.ClusterRoleRuleOwner{ClusterRole: is}}, reconciliation.ClusterRoleRuleOwner{ClusterRole: want.(*rbacv1.ClusterRole)}
	case *rbacv1.Role:
		role.Client, role.Role = oneRole{owner: reconciliation.RoleRuleOwner{Role: is}}, reconciliation.RoleRuleOwner{Role: want.(*rbacv1.Role)}
	case *rbacv1.ClusterRoleBinding:
		binding.Client = oneBinding{binding: reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: is}}
		binding.RoleBinding = reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: want.(*rbacv1.ClusterRoleBinding)}
	case *rbacv1.RoleBinding:
		binding.Client = oneBinding{binding: reconciliation.RoleBindingAdapter{RoleBinding: is}}
		binding.RoleBinding = reconciliation.RoleBindingAdapter{RoleBinding: want.(*rbacv1.RoleBinding)}
	default:
		return nil, false, fmt.Errorf("%T is neither a role nor a binding", existing)
	}
	if role.Role != nil {
		r, err := role.Run()
		if err != nil || r.Operation == reconciliation.ReconcileNone {
			return nil, false, err
		}
		if r.Protected {
			p.warnProtected(t, role.Role.GetNamespace(), role.Role.GetName(), "permissions", r.MissingRules)
			return nil, false, nil
		}
		return r.Role.GetObject(), false, nil
	}
	r, err := binding.Run()
	if err != nil || r.Operation == reconciliation.ReconcileNone {
		return nil, false, err
	}
	if r.Protected {
		p.warnProtected(t, binding.RoleBinding.GetNamespace(), binding.RoleBinding.GetName(), "subjects", r.MissingSubjects)
		return nil, false, nil
	}
	return r.RoleBinding.GetObject(), r.Operation == reconciliation.ReconcileRecreate, nil
}

// warnProtected warns of an object with the annotation autoupdate=false that differs from the bootstrap policy, in kube-apiserver's words.
func (p *Plane) warnProtected(t *resources.Type, namespace, name, what string, missing any) {
	if namespace != "" {
		name += " in " + namespace
	}
	p.Logger.Warn("skipped reconcile-protected "+strings.ToLower(t.Kind)+"."+t.Group+"/"+name+" with missing "+what, "missing", missing)
}

// oneRole is a client that returns one role. The reconciliation is a dry run and writes nothing through it.
type oneRole struct {
	reconciliation.RuleOwnerModifier // nil

	owner reconciliation.RuleOwner
}

// Get implements reconciliation.RuleOwnerModifier.
func (c oneRole) Get(string, string) (reconciliation.RuleOwner, error) { return c.owner, nil }

// oneBinding is a client that returns one binding.
type oneBinding struct {
	reconciliation.RoleBindingModifier // nil

	binding reconciliation.RoleBinding
}

// Get implements reconciliation.RoleBindingModifier.
func (c oneBinding) Get(string, string) (reconciliation.RoleBinding, error) { return c.binding, nil }
