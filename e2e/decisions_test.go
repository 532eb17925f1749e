package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// decision is a row of the table: a user and a request.
type decision struct {
	user                                                               user.DefaultInfo
	verb, group, version, resource, subresource, namespace, name, path string
	// node is the node of a field selector for Pods; "" for no selector.
	node string
}

func (d decision) String() string {
	return fmt.Sprintf("%s %v %s %s/%s/%s of %q in %q %s %s", d.user.Name, d.user.Groups, d.verb, d.group, d.resource, d.subresource, d.name, d.namespace, d.path, d.node)
}

// request returns the request of the row. It changes nothing.
func (d decision) request(ctx context.Context, url string) (*http.Request, error) {
	method := map[string]string{"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}[d.verb]
	if d.path == "" {
		url += map[bool]string{true: "/api/", false: "/apis/" + d.group + "/"}[d.group == ""] + d.version
		if d.namespace != "" {
			url += "/namespaces/" + d.namespace
		}
		for _, part := range []string{d.resource, d.name, d.subresource} {
			if part != "" {
				url += "/" + part
			}
		}
	}
	body, media := "", "application/json"
	switch method {
	case "PATCH":
		body, media = "{}", "application/merge-patch+json"
	case "POST", "PUT":
		body = "{}"
	}
	query := neturl.Values{}
	if method != "GET" {
		query.Set("dryRun", "All")
	}
	if d.verb == "watch" {
		query.Set("watch", "1")
	}
	if d.node != "" {
		query.Set("fieldSelector", "spec.nodeName="+d.node)
	}
	if d.path == "" && len(query) > 0 {
		url += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, url+d.path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", media)
	r.Header.Set("Impersonate-User", d.user.Name)
	r.Header["Impersonate-Group"] = d.user.Groups
	return r, nil
}

// refusal is a server's message when it refuses the row; "" when it does not.
func (d decision) refusal(t *testing.T, s *sectionServer) string {
	t.Helper()
	r, err := d.request(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		return "" // a watch has begun, for example
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || !strings.Contains(status.Message, "User \""+d.user.Name+"\" cannot ") {
		return "" // the result after authorization does not matter
	}
	return status.Message
}

// refusalUntil is kube-apiserver's refusal of a row; kube-apiserver learns of roles with a delay.
func (d decision) refusalUntil(t *testing.T, s *sectionServer, wanted string) string {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		message := d.refusal(t, s)
		if message == wanted || time.Now().After(deadline) {
			return message
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (d decision) attributes() authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{User: &d.user, Verb: d.verb, APIGroup: d.group, APIVersion: d.version, Resource: d.resource, Subresource: d.subresource,
		Namespace: d.namespace, Name: d.name, Path: d.path, ResourceRequest: d.path == ""}
	if d.node != "" {
		a.FieldSelectorRequirements = fields.OneTermEqualSelector("spec.nodeName", d.node).Requirements()
	}
	return a
}

// decisions makes rows, and the roles for some of them.
type decisions struct {
	*rand.Rand
	namespace string
	users     []user.DefaultInfo
}

func newDecisions(namespace string) decisions {
	d := decisions{Rand: rand.New(rand.NewPCG(1, 37)), namespace: namespace}
	for _, name := range []string{"nobody", "u0", "u1", "u2", "admin-here", "edit-here", "view-here", "view-everywhere", user.KubeControllerManager, user.KubeScheduler, user.KubeProxy,
		"system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:kube-system:generic-garbage-collector",
		"system:serviceaccount:kube-system:deployment-controller", "system:serviceaccount:kube-system:resourcequota-controller"} {
		d.users = append(d.users, user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}})
	}
	d.users = append(d.users, user.DefaultInfo{Name: "in-group", Groups: []string{"g", user.AllAuthenticated}}, user.DefaultInfo{Name: "watches", Groups: []string{user.MonitoringGroup, user.AllAuthenticated}},
		user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", user.AllAuthenticated}},
		user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup, user.AllAuthenticated}}, user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}})
	return d
}

// asked are the requested resources with their subresources, by group and version.
var asked = []struct {
	group, version, resource string
	namespaced               bool
	subresources             []string
}{
	{"", "v1", "pods", true, []string{"", "", "status", "log", "eviction", "binding", "ephemeralcontainers", "exec", "portforward"}}, {"", "v1", "secrets", true, []string{""}},
	{"", "v1", "configmaps", true, []string{""}}, {"", "v1", "serviceaccounts", true, []string{"", "token"}}, {"", "v1", "nodes", false, []string{"", "status", "proxy"}},
	{"", "v1", "namespaces", false, []string{"", "status", "finalize"}}, {"", "v1", "events", true, []string{""}},
	{"apps", "v1", "deployments", true, []string{"", "scale", "status"}}, {"apps", "v1", "replicasets", true, []string{"", "scale"}},
	{"rbac.authorization.k8s.io", "v1", "roles", true, []string{""}}, {"rbac.authorization.k8s.io", "v1", "clusterroles", false, []string{""}},
	{"coordination.k8s.io", "v1", "leases", true, []string{""}}, {"certificates.k8s.io", "v1", "certificatesigningrequests", false, []string{"", "approval", "status"}},
	{"authorization.k8s.io", "v1", "selfsubjectaccessreviews", false, []string{""}}, {"authorization.k8s.io", "v1", "subjectaccessreviews", false, []string{""}},
	{"discovery.k8s.io", "v1", "endpointslices", true, []string{""}}, {"resource.k8s.io", "v1", "resourceslices", false, []string{""}},
	{"decisions.example.com", "v1", "things", true, []string{"", "status"}}, {"storage.k8s.io", "v1", "csinodes", false, []string{""}},
}

func one[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (d decisions) row() decision {
	row := decision{user: one(d.Rand, d.users...)}
	if d.IntN(8) == 0 {
		row.verb, row.path = "get", one(d.Rand, "/api", "/apis", "/apis/apps/v1", "/metrics", "/healthz", "/livez/ping", "/version", "/openapi/v2", "/logs", "/nowhere", "/.well-known/openid-configuration")
		return row
	}
	a := one(d.Rand, asked...)
	row.group, row.version, row.resource, row.subresource = a.group, a.version, a.resource, one(d.Rand, a.subresources...)
	if a.namespaced {
		row.namespace = one(d.Rand, d.namespace, "default", "kube-system")
	}
	row.verb = one(d.Rand, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
	if row.subresource != "" {
		row.verb = one(d.Rand, "get", "create", "update", "patch")
	}
	if (row.verb == "list" || row.verb == "watch") && (row.resource == "pods" || row.resource == "resourceslices") {
		row.node = one(d.Rand, "", "n", "n", "other")
	}
	if named := row.verb != "list" && row.verb != "watch" && row.verb != "deletecollection" && row.verb != "create"; named || row.subresource != "" {
		row.name = one(d.Rand, "x", "y", "kube-root-ca.crt")
	}
	return row
}

// rules are random rules about these resources.
func (d decisions) rules() (rules []rbacv1.PolicyRule) {
	for range 3 + d.IntN(3) {
		a := one(d.Rand, asked...)
		name := a.resource
		if sub := one(d.Rand, a.subresources...); sub != "" {
			name += "/" + sub
		}
		r := rbacv1.PolicyRule{Verbs: []string{one(d.Rand, "get", "list", "watch", "create", "update", "*"), one(d.Rand, "patch", "delete", "deletecollection", "get")},
			APIGroups: []string{one(d.Rand, a.group, a.group, "*")}, Resources: []string{one(d.Rand, name, name, "*", "*/"+one(d.Rand, "status", "scale"))}}
		switch d.IntN(4) {
		case 0:
			r.ResourceNames = []string{"x"}
		case 1:
			rules = append(rules, rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{one(d.Rand, "/metrics", "/nowhere", "/lo*", "/livez/*")}})
		}
		rules = append(rules, r)
	}
	return rules
}

// objects are the roles and bindings that are added to the bootstrap policy, by path.
func (d decisions) objects() map[string]any {
	const root = "/apis/rbac.authorization.k8s.io/v1/"
	objects := map[string]any{}
	add := func(name, kind, ref string, subject rbacv1.Subject, everywhere bool) {
		subject.APIGroup = rbacv1.GroupName
		of, subjects := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: ref}, []rbacv1.Subject{subject}
		if everywhere {
			objects[root+"clusterrolebindings/"+name] = rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: of, Subjects: subjects}
		} else {
			objects[root+"namespaces/"+d.namespace+"/rolebindings/"+name] = rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: of, Subjects: subjects}
		}
	}
	// No controller aggregates the roles admin, edit and view here, so their users are bound to what these are aggregated from, too.
	aggregated := []string{"view", "edit", "admin"}
	for i, name := range aggregated {
		add(name, "ClusterRole", name, rbacv1.Subject{Kind: "User", Name: name + "-here"}, false)
		for _, from := range aggregated[:i+1] {
			add(name+"-"+from, "ClusterRole", "system:aggregate-to-"+from, rbacv1.Subject{Kind: "User", Name: name + "-here"}, false)
		}
	}
	add(d.namespace+"-view", "ClusterRole", "system:aggregate-to-view", rbacv1.Subject{Kind: "User", Name: "view-everywhere"}, true)
	for i := range 16 {
		name := fmt.Sprintf("%s-%d", d.namespace, i)
		subject := rbacv1.Subject{Kind: "User", Name: fmt.Sprint("u", i%3)}
		if i >= 14 {
			subject = rbacv1.Subject{Kind: "Group", Name: "g"}
		}
		rules := d.rules()
		if i%2 == 0 {
			objects[root+"clusterroles/"+name] = rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
			add(name, "ClusterRole", name, subject, i%4 == 0)
			continue
		}
		rules = slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool { return len(r.NonResourceURLs) > 0 })
		objects[root+"namespaces/"+d.namespace+"/roles/"+name] = rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		add(name, "Role", name, subject, false)
	}
	return objects
}

// create creates an object at the path of its type.
func (s *sectionServer) create(t *testing.T, path string, o any) {
	t.Helper()
	var body map[string]any
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		t.Fatal(err)
	}
	if a := s.send(t, step{Send: "POST " + path, Body: body}, nil); a.code != http.StatusCreated {
		t.Fatalf("%s: %d %s", path, a.code, a.text)
	}
}

// definition is the custom resource of the table.
func definition() any {
	return map[string]any{"metadata": map[string]any{"name": "things.decisions.example.com"}, "spec": map[string]any{"group": "decisions.example.com", "scope": "Namespaced",
		"names": map[string]any{"kind": "Thing", "plural": "things"}, "versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
			"subresources": map[string]any{"status": map[string]any{}}, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}}}
}

// TestDecisions sends a request for each row of a table of users, verbs, resources and names, under the bootstrap policy and random roles. A request
// is allowed if upstream's authorizers allow it by the objects that the server shows. With E2E_PEER=kube-apiserver both servers are asked, and refuse
// in the same words.
func TestDecisions(t *testing.T) {
	servers, namespace := startSectionServers(t, ""), unique("decisions")
	checkPolicies(t, servers)
	d := newDecisions(namespace)
	objects := d.objects()
	for _, s := range servers {
		s.createNamespace(t, namespace)
		s.create(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
		for path, o := range objects {
			s.create(t, path[:strings.LastIndex(path, "/")], o)
		}
	}
	oracle, allowed, own := upstreams(t, servers[0]), 0, map[string]int{}
	const rows = 5000
	for range rows {
		row := d.row()
		want := oracle(row)
		if want {
			allowed++
			if anybody := row; anybody.user.Name != user.Anonymous {
				anybody.user = d.users[0]
				if !oracle(anybody) {
					own[row.user.Name]++
				}
			}
		}
		message := row.refusal(t, servers[0])
		if (message == "") != want {
			t.Errorf("%s: %q, upstream's authorizers allow it: %t", row, message, want)
		}
		for _, peer := range servers[1:] {
			if theirs := row.refusalUntil(t, peer, message); theirs != message {
				t.Errorf("%s:\n%s says %q,\n%s says %q", row, servers[0].name, message, peer.name, theirs)
			}
		}
	}
	if allowed < rows/10 || allowed > rows*9/10 {
		t.Errorf("%d of %d rows are allowed", allowed, rows)
	}
	for _, who := range d.users[1:] {
		switch {
		case who.Name == user.Anonymous || strings.HasPrefix(who.Name, "system:bootstrap:"): // have no rights of their own
		case own[who.Name] < 3:
			t.Errorf("%s is allowed %d rows that not everybody is allowed; all: %v", who.Name, own[who.Name], own)
		}
	}
}
