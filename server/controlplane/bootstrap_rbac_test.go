package controlplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/history"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
)

const rbacPath = "/apis/rbac.authorization.k8s.io/v1/"

// policyObject is an RBAC object of any kind, without the fields that a server sets.
type policyObject struct {
	Metadata        metav1.ObjectMeta       `json:"metadata"`
	Rules           []rbacv1.PolicyRule     `json:"rules"`
	AggregationRule *rbacv1.AggregationRule `json:"aggregationRule"`
	Subjects        []rbacv1.Subject        `json:"subjects"`
	RoleRef         rbacv1.RoleRef          `json:"roleRef"`
}

func policyObjects(t *testing.T, items any) map[string]policyObject {
	t.Helper()
	data, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	var list []policyObject
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]policyObject{}
	for _, o := range list {
		all[o.Metadata.Namespace+"/"+o.Metadata.Name] = o
	}
	return all
}

func (k kept) listed(resource string) map[string]policyObject {
	k.Helper()
	var list struct{ Items []policyObject }
	if err := json.Unmarshal(get(k.s.Handler(), rbacPath+resource, "known").Body.Bytes(), &list); err != nil {
		k.Fatal(err)
	}
	return policyObjects(k.T, list.Items)
}

func (k kept) change(method, path, body string) {
	k.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "known")
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	if k.s.Handler().ServeHTTP(w, r); w.Code >= 300 {
		k.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

// The objects after a start are those of upstream's bootstrap policy, and no others; a later start changes nothing.
func TestBootstrapPolicy(t *testing.T) {
	k := newWhole(t, nil)
	var roles []rbacv1.Role
	for _, list := range bootstrappolicy.NamespaceRoles() {
		roles = append(roles, list...)
	}
	var roleBindings []rbacv1.RoleBinding
	for _, list := range bootstrappolicy.NamespaceRoleBindings() {
		roleBindings = append(roleBindings, list...)
	}
	given := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion", "CreationTimestamp", "ManagedFields")
	check := func() {
		t.Helper()
		for resource, want := range map[string]any{
			"clusterroles":        slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()),
			"clusterrolebindings": slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()),
			"roles":               roles, "rolebindings": roleBindings,
		} {
			if diff := cmp.Diff(policyObjects(t, want), k.listed(resource), given, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", resource, diff)
			}
		}
	}
	check()
	before := k.listed("clusterroles")
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	check()
	if diff := cmp.Diff(before, k.listed("clusterroles")); diff != "" {
		t.Errorf("the second start wrote (-before +after):\n%s", diff)
	}
}

// Permissions that earlier releases granted to everybody by system:discovery are granted by system:public-info-viewer now.
// Its binding is created with an administrator's changes to the former.
func TestBootstrapPolicySplits(t *testing.T) {
	for _, c := range []struct {
		name, discovery string
		want            []string
	}{
		{"left alone", `{"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false","mine":"yes"}},
			"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:authenticated"}]}`, []string{"system:authenticated"}},
		{"reconciled", `{"metadata":{"annotations":{"mine":"yes"}},
			"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"others"}]}`, []string{"others", "system:authenticated", "system:unauthenticated"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newWhole(t, nil)
			const bindings = rbacPath + "clusterrolebindings/"
			k.change("PATCH", bindings+"system:discovery", c.discovery)
			k.change("DELETE", bindings+"system:public-info-viewer", "")
			if err := k.p.Bootstrap(t.Context()); err != nil {
				t.Fatal(err)
			}
			made := k.listed("clusterrolebindings")["/system:public-info-viewer"]
			var got []string
			for _, s := range made.Subjects {
				got = append(got, s.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) || made.Metadata.Annotations["mine"] != "yes" {
				t.Errorf("made for %v with %v, want %v", got, made.Metadata.Annotations, c.want)
			}
		})
	}
}

// Rules that an administrator added to admin, edit or view before they became aggregated roles are in the roles that these are aggregated
// from now. Roles that are not to be updated stay as they are.
func TestBootstrapPolicyAggregates(t *testing.T) {
	k := newWhole(t, nil)
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"own.example.com"}, Resources: []string{"things"}}
	for name, annotations := range map[string]string{"admin": `{"mine":"yes"}`, "edit": `{"rbac.authorization.kubernetes.io/autoupdate":"false"}`} {
		k.change("DELETE", rbacPath+"clusterroles/system:aggregate-to-"+name, "")
		k.change("PATCH", rbacPath+"clusterroles/"+name, `{"metadata":{"annotations":`+annotations+`},"aggregationRule":null,`+
			`"rules":[{"verbs":["get"],"apiGroups":["own.example.com"],"resources":["things"]}]}`)
	}
	k.change("DELETE", rbacPath+"clusterroles/system:aggregate-to-view", "")
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	roles := k.listed("clusterroles")
	for _, want := range bootstrappolicy.ClusterRoles() {
		switch is := roles["/"+want.Name]; want.Name {
		case "system:aggregate-to-admin":
			if covered, missing := validation.Covers(is.Rules, append(want.Rules, extra)); !covered || is.Metadata.Labels["rbac.authorization.k8s.io/aggregate-to-admin"] != "true" ||
				is.Metadata.Annotations["mine"] != "yes" {
				t.Errorf("%s with %v lacks %+v", want.Name, is.Metadata, missing)
			}
		case "system:aggregate-to-edit", "edit":
			if diff := cmp.Diff([]rbacv1.PolicyRule{extra}, is.Rules); diff != "" || is.AggregationRule != nil {
				t.Errorf("%s (-want +got):\n%s", want.Name, diff)
			}
		case "system:aggregate-to-view", "admin", "view":
			if diff := cmp.Diff(want.AggregationRule, is.AggregationRule); diff != "" {
				t.Errorf("%s (-want +got):\n%s", want.Name, diff)
			}
		}
	}
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(roles, k.listed("clusterroles")); diff != "" {
		t.Errorf("the next start wrote (-before +after):\n%s", diff)
	}
}

// Where RBAC is not an authorizer, its policy is not created, and no post-start hook reports it.
func TestNoBootstrapPolicyWithoutRBAC(t *testing.T) {
	k := newWhole(t, func(_ *server.Config, c *controlplane.Config) { c.NoRBAC = true })
	for _, resource := range []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"} {
		if found := k.listed(resource); len(found) != 0 {
			t.Errorf("%d %s are made", len(found), resource)
		}
	}
	if ready := get(k.s.Handler(), "/readyz?verbose", "known").Body.String(); strings.Contains(ready, "rbac") || !strings.Contains(ready, "poststarthook/start-system-namespaces-controller") {
		t.Error(ready)
	}
}

// The role and the binding for the object history are created where it is served, but not for other resources of a group with its name.
func TestBootstrapPolicyOfTheHistory(t *testing.T) {
	k := newWhole(t, nil)
	for _, served := range []bool{false, true} {
		group := history.Config{Scheme: builtin.Scheme}.Group()
		if !served {
			for _, of := range group.Versions[0].Types {
				of.Computed = nil
			}
		}
		k.registry.SetGroup(group)
		if err := k.p.Bootstrap(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, resource := range []string{"clusterroles", "clusterrolebindings"} {
			if _, made := k.listed(resource)["/"+history.RoleName]; made != served {
				t.Errorf("the history is served: %t; its %s are made: %t", served, resource, made)
			}
		}
	}
}

// A start adds missing permissions to roles and bindings, and removes none, since a newer release may have added them. Objects with
// autoupdate=false stay unchanged, and a binding to another role is recreated.
func TestBootstrapPolicyIsReconciled(t *testing.T) {
	k := newWhole(t, nil)
	var view, scheduler rbacv1.ClusterRole
	for _, r := range bootstrappolicy.ClusterRoles() {
		switch r.Name {
		case "system:aggregate-to-view":
			view = r
		case "system:kube-scheduler":
			scheduler = r
		}
	}
	extra := `{"verbs":["get"],"apiGroups":["later.example.com"],"resources":["things"]}`
	k.change("PATCH", rbacPath+"clusterroles/"+view.Name, `{"rules":[`+extra+`],"metadata":{"labels":{"own":"label"}}}`)
	k.change("PATCH", rbacPath+"clusterroles/"+scheduler.Name, `{"rules":null,"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`)
	k.change("DELETE", rbacPath+"clusterroles/cluster-admin", ``)
	k.change("PATCH", rbacPath+"clusterrolebindings/cluster-admin", `{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"jane"}]}`)
	k.change("DELETE", rbacPath+"clusterrolebindings/system:basic-user", ``)
	k.change("POST", rbacPath+"clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"system:basic-user"},`+
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`)
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	roles, bindings := k.listed("clusterroles"), k.listed("clusterrolebindings")
	is := roles["/"+view.Name]
	if covered, missing := validation.Covers(is.Rules, view.Rules); !covered || is.Rules[0].APIGroups[0] != "later.example.com" || is.Metadata.Labels["own"] != "label" {
		t.Errorf("%s lacks %+v, and begins with %+v", view.Name, missing, is.Rules[0])
	}
	if len(roles["/"+scheduler.Name].Rules) != 0 {
		t.Error("a role that is not to be updated was")
	}
	if _, ok := roles["/cluster-admin"]; !ok {
		t.Error("a role that was deleted is not back")
	}
	if names := bindings["/cluster-admin"].Subjects; len(names) != 2 || names[0].Name != "jane" || names[1].Name != "system:masters" {
		t.Errorf("subjects of cluster-admin: %+v", names)
	}
	if ref := bindings["/system:basic-user"].RoleRef.Name; ref != "system:basic-user" {
		t.Errorf("the binding is to %s", ref)
	}
	// The additions of both releases are there now, so whichever server starts next writes nothing.
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]any{"clusterroles": roles, "clusterrolebindings": bindings} {
		if diff := cmp.Diff(before, any(k.listed(name))); diff != "" {
			t.Errorf("%s were written by a start that had nothing to add (-before +after):\n%s", name, diff)
		}
	}
}

// A start warns of roles and bindings that lack something and are not to be updated, in kube-apiserver's words.
func TestBootstrapPolicyIsNotUpdated(t *testing.T) {
	var log bytes.Buffer
	k := newWhole(t, func(_ *server.Config, c *controlplane.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	const kept = `"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}`
	k.change("PATCH", rbacPath+"clusterroles/system:kube-scheduler", `{"rules":null,`+kept+`}`)
	k.change("PATCH", rbacPath+"clusterroles/system:basic-user", `{`+kept+`}`) // lacks nothing
	k.change("PATCH", rbacPath+"clusterrolebindings/system:discovery", `{"subjects":null,`+kept+`}`)
	k.change("PATCH", rbacPath+"namespaces/kube-system/rolebindings/system:controller:token-cleaner", `{"subjects":null,`+kept+`}`)
	log.Reset()
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, warning := range []string{
		`skipped reconcile-protected clusterrole.rbac.authorization.k8s.io/system:kube-scheduler with missing permissions" missing="[{`,
		`skipped reconcile-protected clusterrolebinding.rbac.authorization.k8s.io/system:discovery with missing subjects" missing="[{`,
		`skipped reconcile-protected rolebinding.rbac.authorization.k8s.io/system:controller:token-cleaner in kube-system with missing subjects" missing="[{`,
	} {
		if n := strings.Count(log.String(), "level=WARN msg=\""+warning); n != 1 {
			t.Errorf("%d times: %s\n%s", n, warning, log.String())
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 3 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}

// A binding to another role that finalizers keep does not keep a server from starting.
func TestBootstrapPolicyWithFinalizer(t *testing.T) {
	k := newWhole(t, nil)
	const name = "system:basic-user"
	k.change("DELETE", rbacPath+"clusterrolebindings/"+name, ``)
	k.change("POST", rbacPath+"clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"`+name+`",`+
		`"finalizers":["example.com/stays"]},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, want := range []string{"cluster-admin", name} {
		if err := k.p.Bootstrap(ctx); err != nil {
			t.Fatal(err)
		}
		if got := k.listed("clusterrolebindings")["/"+name].RoleRef.Name; got != want {
			t.Errorf("bound to %s, want %s", got, want)
		}
		if want != name {
			k.change("PATCH", rbacPath+"clusterrolebindings/"+name, `{"metadata":{"finalizers":null}}`)
		}
	}
}
