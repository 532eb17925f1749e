package authz_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// fixture is a store with the built-in types.
type fixture struct {
	testing.TB
	store   resources.Store
	catalog *resources.Catalog
}

func newFixture(t testing.TB) fixture { return fixtureOf(t, sqlitetest.Open(t)) }

func fixtureOf(t testing.TB, store resources.Store) fixture {
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	return fixture{t, store, registry.Catalog()}
}

func (f fixture) write(resource string, obj runtime.Object) resources.Write {
	f.Helper()
	typ, ok := f.catalog.Type(resource)
	if !ok {
		f.Fatalf("there is no %s", resource)
	}
	hub, err := typ.ToHub(obj)
	if err != nil {
		f.Fatal(err)
	}
	draft, err := typ.NewDraft(f.Context(), hub)
	if err != nil {
		f.Fatal(err)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		f.Fatal(err)
	}
	return resources.Write{Op: resources.Create, Key: typ.KeyOf(m.GetNamespace(), m.GetName()), Draft: draft}
}

func (f fixture) commit(writes ...resources.Write) {
	f.Helper()
	if _, err := f.store.Commit(f.Context(), writes...); err != nil {
		f.Fatal(err)
	}
}

// now returns the write with the present revision of its object as precondition.
func (f fixture) now(op resources.Op, w resources.Write) resources.Write {
	f.Helper()
	o, err := f.store.Get(f.Context(), w.Key, resources.At{})
	if err != nil {
		f.Fatal(err)
	}
	w.Op, w.From = op, o.Revision
	return w
}

const (
	roles, roleBindings               = "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"
	clusterRoles, clusterRoleBindings = "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"
)

func rule(verbs, groups, names []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: names}
}

func ask(who user.Info, verb, namespace, resource, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: who, Verb: verb, Namespace: namespace, APIVersion: "v1", Resource: resource, Name: name, ResourceRequest: true}
}

func allowed(t testing.TB, a authorizer.UnconditionalAuthorizer, q authorizer.Attributes) bool {
	t.Helper()
	decision, _, err := a.Authorize(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return decision == authorizer.DecisionAllow
}

// webhookOf returns the configuration of a webhook as the flags would give it.
func webhookOf(h *hook) *apiserver.WebhookConfiguration {
	return &apiserver.WebhookConfiguration{FailurePolicy: apiserver.FailurePolicyNoOpinion, SubjectAccessReviewVersion: "v1beta1",
		ConnectionInfo: apiserver.WebhookConnectionInfo{KubeConfigFile: &h.kubeconfig}}
}

func hashed(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
