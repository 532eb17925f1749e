package server_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/servertest"
)

// guarded returns a server with RBAC and the bootstrap policy. The Authorization header of a request names its user and, after commas, the groups.
func guarded(t *testing.T, modes ...string) http.Handler {
	t.Helper()
	s, _ := guardedBy(t, authz.Options{Modes: modes}, nil)
	return s.Handler()
}

// guardedBy is guarded with any authorizers; change, when set, may modify the configuration.
func guardedBy(t *testing.T, o authz.Options, change func(*server.Config)) (*server.Server, server.Config) {
	t.Helper()
	s, c := servertest.New(t, func(c *server.Config) {
		o.Store, o.Logger = c.Store, servertest.Quiet
		a, err := authz.New(o)
		if err != nil {
			t.Fatal(err)
		}
		c.Pipeline, c.Authorizer = resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Authorizer: a}), a
		c.Registry.SetGroups(builtin.Parts{Reader: c.Store, Registry: c.Registry, Authorizer: a, Rules: a.Rules(), Audiences: []string{"api"},
			Tokens: &builtin.Tokens{Generator: unsigned{}}}.Groups())
		c.IssuedTokens = authn.NewIssuedTokens(resources.NewRows(c.Store.(resources.Store)), nil)
		c.AllowsAnonymous = func(string) bool { return true }
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			name := r.Header.Get("Authorization")
			if name == "" {
				return nil, false, nil
			}
			parts := strings.Split(name, ",")
			return &user.DefaultInfo{Name: parts[0], Groups: append(parts[1:], user.AllAuthenticated)}, true, nil
		}
		if change != nil {
			change(c)
		}
	})
	p := controlplane.New(controlplane.Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger, Front: s})
	if err := p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, c
}

// unsigned issues worthless tokens.
type unsigned struct{}

func (unsigned) GenerateToken(context.Context, *jwt.Claims, any) (string, error) { return "t", nil }

// send sends a request as a user, and returns code and body.
func send(h http.Handler, who, method, path, body string, headers ...string) (int, string) {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if who != "" {
		r.Header.Set("Authorization", who)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const admin = "admin," + user.SystemPrivilegedGroup

// must is send for requests that have to succeed.
func must(t *testing.T, h http.Handler, who, method, path, body string) {
	t.Helper()
	if code, got := send(h, who, method, path, body); code >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, code, got)
	}
}

const rbacPath = "/apis/rbac.authorization.k8s.io/v1/"

func role(kind, name, rules string) string {
	return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"` + name + `"},"rules":[` + rules + `]}`
}

func bindingOf(kind, name, refKind, ref, who string) string {
	return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"` + name + `"},"roleRef":{"apiGroup":"` + rbacv1.GroupName +
		`","kind":"` + refKind + `","name":"` + ref + `"},"subjects":[{"kind":"User","apiGroup":"` + rbacv1.GroupName + `","name":"` + who + `"}]}`
}

// The anonymous user may do what the bootstrap policy allows, and otherwise gets kube-apiserver's error.
func TestAnonymousUser(t *testing.T) {
	h := guarded(t, "Node", "RBAC")
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 200, "/version": 200, "/api": 403, "/apis": 403, "/metrics": 403,
		"/openapi/v2": 403, "/": 403, "/nowhere": 403, "/api/v1/namespaces": 403, "/livez/ping": 403} {
		if code, body := send(h, "", "GET", path, ""); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for path, want := range map[string]string{
		"/api":                            `forbidden: User \"system:anonymous\" cannot get path \"/api\"`,
		"/api/v1/namespaces/default/pods": `pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"`,
	} {
		if _, body := send(h, "", "GET", path, ""); !strings.Contains(body, `"message":"`+want+`"`) {
			t.Errorf("%s: %s", path, body)
		}
	}
	if code, body := send(h, "jane", "GET", "/api", ""); code != 200 {
		t.Errorf("discovery, for somebody: %d %s", code, body)
	}
}

// No user can grant a right that they lack, by any way to write a role or binding.
func TestNobodyEscalates(t *testing.T) {
	h := guarded(t, "RBAC")
	own := `{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}`
	more := `{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}`
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "writer", `{"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"],`+
		`"verbs":["get","create","update","patch","delete"]},`+own))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "writer", "ClusterRole", "writer", "jane"))
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "more", more))
	must(t, h, admin, "POST", rbacPath+"namespaces/default/roles", role("Role", "more", more))
	must(t, h, "jane", "POST", rbacPath+"clusterroles", role("ClusterRole", "own", own))
	must(t, h, "jane", "POST", rbacPath+"namespaces/default/roles", role("Role", "own", own))
	must(t, h, "jane", "POST", rbacPath+"namespaces/default/rolebindings", bindingOf("RoleBinding", "own", "ClusterRole", "own", "x"))
	must(t, h, "jane", "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "own", "ClusterRole", "own", "x"))
	toMore := bindingOf("ClusterRoleBinding", "more", "ClusterRole", "more", "x")
	must(t, h, admin, "POST", rbacPath+"namespaces/default/rolebindings", bindingOf("RoleBinding", "more", "Role", "more", "x"))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", toMore)
	const apply, jsonPatch = "application/apply-patch+yaml", "application/json-patch+json"
	const jane = `{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"jane"}`
	for _, c := range []struct{ method, path, body, media string }{
		{"PATCH", "namespaces/default/rolebindings/more", `{"subjects":[` + jane + `]}`, ""},
		{"PATCH", "namespaces/default/rolebindings/more", `[{"op":"add","path":"/subjects/-","value":` + jane + `}]`, jsonPatch},
		{"PATCH", "clusterrolebindings/more?fieldManager=m&force=true", strings.ReplaceAll(toMore, `"x"`, `"jane"`), apply},
		{"PUT", "clusterrolebindings/more", strings.ReplaceAll(toMore, `"x"`, `"jane"`), ""},
		{"POST", "clusterroles", role("ClusterRole", "new", more), ""},
		{"POST", "clusterroles?dryRun=All", role("ClusterRole", "new", more), ""},
		{"PUT", "clusterroles/new", role("ClusterRole", "new", more), ""},
		{"PATCH", "clusterroles/new?fieldManager=m", role("ClusterRole", "new", more), apply},
		{"PUT", "clusterroles/own", role("ClusterRole", "own", more), ""},
		{"PATCH", "clusterroles/own", `{"rules":[` + more + `]}`, ""},
		{"PATCH", "clusterroles/own?dryRun=All", `{"rules":[` + more + `]}`, ""},
		{"PATCH", "clusterroles/own?fieldManager=m&force=true", role("ClusterRole", "own", more), apply},
		{"PATCH", "clusterroles/own", `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`, ""},
		{"PATCH", "clusterroles/more", `{"metadata":{"labels":{"a":"b"}}}`, ""},
		{"POST", "namespaces/default/roles", role("Role", "new", more), ""},
		{"PUT", "namespaces/default/roles/new", role("Role", "new", more), ""},
		{"PATCH", "namespaces/default/roles/own", `{"rules":[` + more + `]}`, ""},
		{"POST", "clusterrolebindings", bindingOf("ClusterRoleBinding", "new", "ClusterRole", "more", "x"), ""},
		{"PUT", "clusterrolebindings/new", bindingOf("ClusterRoleBinding", "new", "ClusterRole", "more", "x"), ""},
		{"POST", "namespaces/default/rolebindings", bindingOf("RoleBinding", "new", "ClusterRole", "more", "x"), ""},
		{"POST", "namespaces/default/rolebindings", bindingOf("RoleBinding", "new", "Role", "more", "x"), ""},
		{"PUT", "namespaces/default/rolebindings/new", bindingOf("RoleBinding", "new", "Role", "more", "x"), ""},
		{"PATCH", "namespaces/default/rolebindings/new?fieldManager=m", bindingOf("RoleBinding", "new", "Role", "more", "x"), apply},
	} {
		media := cmp.Or(c.media, map[bool]string{true: "application/merge-patch+json", false: "application/json"}[c.method == "PATCH"])
		code, body := send(h, "jane", c.method, rbacPath+c.path, c.body, "Content-Type", media)
		if code != 403 || !strings.Contains(body, "is attempting to grant RBAC permissions not currently held") && !strings.Contains(body, "must have cluster-admin privileges") {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	// A change of finalizers, for the garbage collector, needs no rights of the role, and neither does an update without changes.
	must(t, h, "jane", "PATCH", rbacPath+"clusterroles/more", `{"metadata":{"finalizers":["a.b/c"]}}`)
	must(t, h, "jane", "PATCH", rbacPath+"clusterroles/more", `{"metadata":{"finalizers":null}}`)
	// The verbs escalate and bind allow it.
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "bolder", `{"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"verbs":["escalate","bind"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "bolder", "ClusterRole", "bolder", "jane"))
	must(t, h, "jane", "POST", rbacPath+"clusterroles", role("ClusterRole", "new", more))
	must(t, h, "jane", "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "new", "ClusterRole", "more", "x"))
	must(t, h, "jane", "PATCH", rbacPath+"clusterrolebindings/more", `{"subjects":[`+jane+`]}`)
}

// The verbs escalate and bind allow a user in a namespace to grant there what they lack, bind only the named roles.
func TestEscalateAndBindInOneNamespace(t *testing.T) {
	h := guarded(t, "RBAC")
	must(t, h, admin, "POST", "/api/v1/namespaces", `{"metadata":{"name":"other"}}`)
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "writer", `{"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"],"verbs":["create","patch"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "writer", "ClusterRole", "writer", "jane"))
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "more", `{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}`))
	more := `{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}`
	for _, namespace := range []string{"default", "other"} {
		for _, name := range []string{"more", "most"} {
			must(t, h, admin, "POST", rbacPath+"namespaces/"+namespace+"/roles", role("Role", name, more))
		}
	}
	must(t, h, admin, "POST", rbacPath+"namespaces/default/roles", role("Role", "bolder", `{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["escalate"]},`+
		`{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"resourceNames":["more"],"verbs":["bind"]}`))
	must(t, h, admin, "POST", rbacPath+"namespaces/default/rolebindings", bindingOf("RoleBinding", "bolder", "Role", "bolder", "jane"))
	const refused = "is attempting to grant RBAC permissions not currently held"
	for _, r := range []request{
		{"POST", "namespaces/default/roles", role("Role", "new", more), 201, ""},
		{"PATCH", "namespaces/default/roles/most", `{"rules":[` + more + `,{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`, 200, ""},
		{"POST", "namespaces/other/roles", role("Role", "new", more), 403, refused},
		{"PATCH", "namespaces/other/roles/most", `{"rules":[` + more + `,{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`, 403, refused},
		{"POST", "clusterroles", role("ClusterRole", "new", more), 403, refused},
		{"POST", "namespaces/default/rolebindings", bindingOf("RoleBinding", "new", "Role", "more", "jane"), 201, ""},
		{"POST", "namespaces/default/rolebindings", bindingOf("RoleBinding", "newer", "Role", "most", "jane"), 403, refused},
		{"POST", "namespaces/other/rolebindings", bindingOf("RoleBinding", "new", "Role", "more", "jane"), 403, refused},
		{"POST", "namespaces/other/rolebindings", bindingOf("RoleBinding", "new", "ClusterRole", "more", "jane"), 403, refused},
	} {
		r.path = rbacPath + r.path
		r.check(t, h, "jane")
	}
}

// Creating an object by PUT or apply needs the right to create.
func TestCreateByOtherVerbs(t *testing.T) {
	h := guarded(t, "RBAC")
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "w", `{"apiGroups":["*"],"resources":["*"],"verbs":["get","update","patch"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "w", "ClusterRole", "w", "jane"))
	cm := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
	lease := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"c"}}`
	for _, dry := range []string{"", "&dryRun=All"} {
		code, body := send(h, "jane", "PATCH", "/api/v1/namespaces/default/configmaps/c?fieldManager=m"+dry, cm, "Content-Type", "application/apply-patch+yaml")
		if code != 403 || !strings.Contains(body, `cannot create resource \"configmaps\"`) {
			t.Errorf("apply: %d %s", code, body)
		}
		code, body = send(h, "jane", "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/c?fieldManager=m"+dry, lease)
		if code != 403 || !strings.Contains(body, `cannot create resource \"leases\"`) {
			t.Errorf("PUT: %d %s", code, body)
		}
	}
}

// Impersonation needs the right to impersonate the user: the legacy one, or that of a mode together with that for the action.
func TestImpersonationTakesRights(t *testing.T) {
	h := guarded(t, "RBAC")
	give := func(who, name, rules string) {
		t.Helper()
		must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", name, rules))
		must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", name, "ClusterRole", name, who))
	}
	give("old", "old", `{"apiGroups":[""],"resources":["users","serviceaccounts"],"verbs":["impersonate"]},`+
		`{"apiGroups":[""],"resources":["groups"],"resourceNames":["g"],"verbs":["impersonate"]},`+
		`{"apiGroups":["authentication.k8s.io"],"resources":["userextras/scope"],"verbs":["impersonate"]}`)
	give("new", "new", `{"apiGroups":["authentication.k8s.io"],"resources":["users"],"resourceNames":["jane"],"verbs":["impersonate:user-info"]},`+
		`{"apiGroups":[""],"resources":["pods"],"verbs":["impersonate-on:user-info:list"]}`)
	give("jane", "jane", `{"apiGroups":[""],"resources":["pods","secrets"],"verbs":["list"]}`)
	const pods, secrets = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/secrets"
	for _, c := range []struct {
		who, path string
		headers   []string
		code      int
		message   string
	}{
		{"old", pods, []string{"Impersonate-User", "jane"}, 200, ""},
		{"old", pods, []string{"Impersonate-User", "jane", "Impersonate-Group", "g"}, 200, ""},
		{"old", pods, []string{"Impersonate-User", "jane", "Impersonate-Group", "h"}, 403,
			`groups \"h\" is forbidden: User \"old\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope`},
		{"old", pods, []string{"Impersonate-User", "jane", "Impersonate-Uid", "7"}, 403,
			`uids.authentication.k8s.io \"7\" is forbidden: User \"old\" cannot impersonate resource \"uids\" in API group \"authentication.k8s.io\" at the cluster scope`},
		{"old", pods, []string{"Impersonate-User", "jane", "Impersonate-Extra-Scope", "a"}, 200, ""},
		{"old", pods, []string{"Impersonate-User", "jane", "Impersonate-Extra-Other", "a"}, 403,
			`userextras.authentication.k8s.io \"a\" is forbidden: User \"old\" cannot impersonate resource \"userextras/other\" in API group \"authentication.k8s.io\" at the cluster scope`},
		{"old", pods, []string{"Impersonate-User", "system:serviceaccount:default:sa"}, 403, `User \"system:serviceaccount:default:sa\" cannot list resource`},
		{"new", pods, []string{"Impersonate-User", "jane"}, 200, ""},
		{"new", secrets, []string{"Impersonate-User", "jane"}, 403, `User \"new\" cannot impersonate-on:user-info:list resource \"secrets\"`},
		{"new", pods, []string{"Impersonate-User", "john"}, 403,
			`users.authentication.k8s.io \"john\" is forbidden: User \"new\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope`},
		{"new", pods, []string{"Impersonate-User", "jane", "Impersonate-Extra-Scope", ""}, 403,
			`cannot impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"scope\"`},
		{"new", pods, []string{"Impersonate-User", "jane", "Impersonate-Extra-A.example.com%2fscope", ""}, 403, "impersonating the empty string value in extra is not allowed"},
		{"jane", pods, []string{"Impersonate-User", "old"}, 403, `cannot impersonate-on:user-info:list resource \"pods\"`},
		{"", pods, []string{"Impersonate-User", "jane"}, 403, `User \"system:anonymous\" cannot impersonate-on:user-info:list resource \"pods\"`},
		{admin, pods, []string{"Impersonate-User", "system:anonymous"}, 403, `User \"system:anonymous\" cannot list resource \"pods\"`},
	} {
		code, body := send(h, c.who, "GET", c.path, "", c.headers...)
		if code != c.code || !strings.Contains(body, c.message) {
			t.Errorf("%s as %v: %d %s", c.who, c.headers, code, body)
		}
	}
}

// Access reviews agree with the decisions about requests.
func TestReviews(t *testing.T) {
	h := guarded(t, "RBAC")
	must(t, h, admin, "POST", rbacPath+"namespaces/default/roles", role("Role", "r", `{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}`))
	must(t, h, admin, "POST", rbacPath+"namespaces/default/rolebindings", bindingOf("RoleBinding", "r", "Role", "r", "jane"))
	const path = "/apis/authorization.k8s.io/v1/"
	for _, c := range []struct{ who, path, spec, want string }{
		{"jane", "selfsubjectaccessreviews", `{"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}}`,
			`"status":{"allowed":true,"reason":"RBAC: allowed by RoleBinding \"r/default\" of Role \"r\" to User \"jane\""}`},
		{"jane", "selfsubjectaccessreviews", `{"resourceAttributes":{"namespace":"other","verb":"get","resource":"pods"}}`, `"status":{"allowed":false}`},
		{admin, "subjectaccessreviews", `{"user":"jane","resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}}`, `"allowed":true`},
		{admin, "subjectaccessreviews", `{"user":"john","groups":["system:masters"],"nonResourceAttributes":{"verb":"get","path":"/x"}}`, `"allowed":true`},
		{admin, "namespaces/default/localsubjectaccessreviews", `{"user":"jane","resourceAttributes":{"namespace":"default","verb":"list","resource":"pods"}}`, `"allowed":false`},
		{"jane", "selfsubjectrulesreviews", `{"namespace":"default"}`, `{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}`},
		{"jane", "subjectaccessreviews", `{"user":"x","resourceAttributes":{"verb":"get","resource":"pods"}}`, `User \"jane\" cannot create resource \"subjectaccessreviews\"`},
	} {
		_, body := send(h, c.who, "POST", path+c.path, `{"spec":`+c.spec+`}`)
		if !strings.Contains(body, c.want) {
			t.Errorf("%s %s %s: %s", c.who, c.path, c.spec, body)
		}
	}
}

// A binding to a missing role is rejected with kube-apiserver's error, which names the resource of the request.
func TestBindingsToNothing(t *testing.T) {
	h := guarded(t, "RBAC")
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "writer", `{"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"],"verbs":["create"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "writer", "ClusterRole", "writer", "jane"))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "dangling", "ClusterRole", "gone", "jane"))
	const cluster, space = "clusterrolebindings", "namespaces/default/rolebindings"
	for _, c := range []struct {
		path, kind, name string
		code             int
		message          string
	}{
		{space, "ClusterRole", "none", 404, `rolebindings.rbac.authorization.k8s.io \"none\" not found`},
		{space, "Role", "none", 404, `rolebindings.rbac.authorization.k8s.io \"none\" not found`},
		{cluster, "ClusterRole", "none", 404, `clusterrolebindings.rbac.authorization.k8s.io \"none\" not found`},
		{cluster, "Role", "none", 400, "Namespace parameter required."},
		{space, "ClusterRole", "", 400, "Name parameter required."},
		{space, "Role", "", 400, "Name parameter required."},
		{space, "Role", "a/b", 400, `Name parameter invalid: \"a/b\": may not contain '/'`},
		{space, "Group", "none", 500, `unsupported role reference kind: \"Group\"`},
	} {
		kind := map[string]string{cluster: "ClusterRoleBinding", space: "RoleBinding"}[c.path]
		code, body := send(h, "jane", "POST", rbacPath+c.path, bindingOf(kind, "new", c.kind, c.name, "x"))
		if code != c.code || !strings.Contains(body, c.message) {
			t.Errorf("%s to %s %q: %d %s", c.path, c.kind, c.name, code, body)
		}
	}
	_, body := send(h, "jane", "POST", rbacPath+"namespaces/default/roles", role("Role", "new", `{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}`))
	if !strings.Contains(body, `; resolution errors: [roles.rbac.authorization.k8s.io \"gone\" not found]`) {
		t.Error(body)
	}
}

// If authorization fails with an error, the response is kube-apiserver's, in plain text.
func TestNobodyCanTell(t *testing.T) {
	s, _ := servertest.New(t, func(c *server.Config) {
		c.Pipeline = resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{
			Authorizer: authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return authorizer.DecisionDeny, "", errors.New("the webhook is <away>")
			})})
	})
	w := get(s.Handler(), "/api/v1/pods?a=<b>", "known")
	want := `Internal Server Error: "/api/v1/pods?a=&lt;b&gt;": the webhook is &lt;away&gt;` + "\n"
	if w.Code != 500 || w.Body.String() != want || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// A role with more combinations of its lists than fit into memory is refused, or accepted from a user who has its rules.
func TestRoleOfManyCombinations(t *testing.T) {
	h := guarded(t, "RBAC")
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "writer", `{"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"],"verbs":["*"],"resourceNames":["many","new"]},`+
		`{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles","rolebindings"],"verbs":["create"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "writer", "ClusterRole", "writer", "jane"))
	list := func(prefix string) string {
		of := make([]string, 100)
		for i := range of {
			of[i] = `"` + prefix + strconv.Itoa(i) + `"`
		}
		return "[" + strings.Join(of, ",") + "]"
	}
	many := `{"apiGroups":` + list("g") + `,"resources":` + list("r") + `,"verbs":` + list("v") + `,"resourceNames":` + list("n") + `}`
	code, body := send(h, "jane", "POST", rbacPath+"namespaces/default/roles?dryRun=All", role("Role", "new", many))
	if code != 403 || !strings.Contains(body, "is attempting to grant RBAC permissions not currently held:") || !strings.Contains(body, "the list ends here") {
		t.Errorf("%d %.300s", code, body)
	}
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "large", many))
	if code, body = send(h, "jane", "POST", rbacPath+"namespaces/default/rolebindings", bindingOf("RoleBinding", "new", "ClusterRole", "large", "x")); code != 403 {
		t.Errorf("%d %.300s", code, body)
	}
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "large", "ClusterRole", "large", "jane"))
	must(t, h, "jane", "POST", rbacPath+"namespaces/default/roles", role("Role", "new", many))
	must(t, h, "jane", "POST", rbacPath+"namespaces/default/rolebindings", bindingOf("RoleBinding", "new", "ClusterRole", "large", "x"))
}
