package server_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/history"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/servertest"
)

// right is a right that an authorizer is asked for, or grants.
type right struct{ verb, group, version, resource, subresource, namespace, name, path, fields, labels string }

// step is a request of the walk, and the right that it needs.
type step struct {
	method, path, body, media string
	takes                     right
}

func (s step) String() string { return s.method + " " + s.path }

// gate is an authorizer that grants one right, or all, and records what it was asked.
type gate struct {
	mu    sync.Mutex
	gives *right
	all   bool
	asked []right
}

func (g *gate) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	r := right{a.GetVerb(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName(), "", "", ""}
	fields, _ := a.GetFieldSelector() // the walk has valid selectors only
	for _, f := range fields {
		r.fields += f.Field + string(f.Operator) + f.Value
	}
	labels, _ := a.GetLabelSelector()
	for _, l := range labels {
		r.labels += l.String()
	}
	if !a.IsResourceRequest() {
		r = right{verb: a.GetVerb(), path: a.GetPath()}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil // the server itself, and the user that prepares the test
	}
	g.asked = append(g.asked, r)
	if g.all || g.gives != nil && *g.gives == r {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// RulesFor implements authorizer.RuleResolver.
func (*gate) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, true, nil
}

// with sends a request while one right is granted, nil: none, and returns the response and the rights asked for.
func (g *gate) with(gives *right, h http.Handler, who string, s step) (code int, body string, asked []right) {
	g.mu.Lock()
	g.gives, g.asked = gives, nil
	g.mu.Unlock()
	code, body = send(h, who, s.method, s.path, s.body, "Content-Type", s.media)
	g.mu.Lock()
	defer g.mu.Unlock()
	return code, body, g.asked
}

// walked returns a server with every type and path, and the steps through all of it.
func walked(t *testing.T) (*gate, http.Handler, *bool, []step) {
	t.Helper()
	g, allowed := &gate{}, true
	s, c := servertest.New(t, func(c *server.Config) {
		c.Pipeline, c.Authorizer = resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Authorizer: g}), g
		apis, err := builtin.ParseRuntimeConfig(map[string]string{"api/all": "true"})
		if err != nil {
			t.Fatal(err)
		}
		groups := append(builtin.Parts{Reader: c.Store, Registry: c.Registry, Tokens: &builtin.Tokens{Generator: unsigned{}}, Authorizer: g,
			Rules: authz.NewRBAC(c.Store).Rules(), APIs: apis}.Groups(),
			history.Config{Historian: c.Store.(resources.Historian), Authorizer: g, Scheme: builtin.Scheme}.Group())
		c.Definitions = custom.New(custom.Config{Registry: c.Registry, Store: c.Store, Scheme: builtin.Scheme, Logger: c.Logger}, groups)
		c.Registry.SetGroups(groups)
		c.AllowsAnonymous = func(string) bool { return allowed }
		c.Aggregator = aggregate.New(aggregate.Config{Registry: c.Registry, Store: c.Store, Logger: c.Logger, Certificate: func() *tls.Certificate { return nil }})
		c.Flags, c.OpenID = map[string]string{}, documents{}
		c.IssuedTokens = authn.NewIssuedTokens(resources.NewRows(c.Store.(resources.Store)), nil)
		c.SetVerbosity = func(v string) (string, error) { return v, nil }
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			switch r.Header.Get("Authorization") {
			case "":
				return nil, false, nil
			case admin:
				return resources.APIServer.Info, true, nil
			}
			return &user.DefaultInfo{Name: "known"}, true, nil
		}
	})
	h := s.Handler()
	must(t, h, admin, "POST", "/api/v1/namespaces", `{"metadata":{"name":"default"}}`)
	for _, scope := range []string{"Namespaced", "Cluster"} {
		kind := scope + "Thing"
		plural := strings.ToLower(kind) + "s"
		must(t, h, admin, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"`+plural+`.example.com"},"spec":{"group":"example.com","scope":"`+scope+`",
			"names":{"kind":"`+kind+`","plural":"`+plural+`"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},
			"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	}
	must(t, h, admin, "GET", "/apis/example.com/v1/clusterthings", "")
	must(t, h, admin, "POST", "/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.else.example.com"},"spec":{"group":"else.example.com","version":"v1",
		"service":{"namespace":"default","name":"else"},"insecureSkipTLSVerify":true,"groupPriorityMinimum":1,"versionPriority":1}}`)
	return g, h, &allowed, append(stepsOfTypes(c.Registry.Catalog()), stepsOfPaths(s, c.Registry.Catalog())...)
}

type documents struct{}

func (documents) GetConfigJSON() ([]byte, int) { return []byte("{}"), 0 }
func (documents) GetKeysetJSON() ([]byte, int) { return []byte("{}"), 0 }

// stepsOfPaths returns the steps for paths of no resource.
func stepsOfPaths(s *server.Server, catalog *resources.Catalog) (steps []step) {
	paths := []string{"/api/v1", "/apis/", "/apis/nowhere", "/apis/nowhere/v1", "/nowhere", "/apis/else.example.com", "/apis/else.example.com/v1"}
	for _, g := range catalog.Groups() {
		paths = append(paths, "/apis/"+g.Name)
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+v.String())
		}
	}
	for _, path := range s.Routes() {
		if strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/") {
			continue // has its own steps above
		}
		paths = append(paths, strings.Replace(path, "*", "x", 1))
	}
	token := `{"user":"jane","groups":["g"],"seconds":60}`
	steps = append(steps, step{"POST", server.TokensPath, token, "application/json", right{verb: "post", path: server.TokensPath}})
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
			steps = append(steps, step{method, path, "", "", right{verb: strings.ToLower(method), path: path}})
		}
	}
	return steps
}

// walk makes the steps of one type.
type walk struct {
	served *resources.Served
	steps  []step
}

func stepsOfTypes(catalog *resources.Catalog) (steps []step) {
	for _, g := range catalog.Groups() {
		for _, v := range g.Versions {
			for _, served := range v.Resources {
				w := walk{served: served}
				w.everything()
				steps = append(steps, w.steps...)
			}
		}
	}
	// Add a type of another server.
	for method, verb := range map[string]string{"GET": "list", "POST": "create", "DELETE": "deletecollection"} {
		steps = append(steps, step{method, "/apis/else.example.com/v1/namespaces/default/others", "{}", "", right{verb: verb, group: "else.example.com", version: "v1", resource: "others", namespace: "default"}})
	}
	return steps
}

// root is the beginning of the version's paths.
func (w *walk) root() string {
	if w.served.Group == "" {
		return "/api/" + w.served.GroupVersionKind.Version
	}
	return "/apis/" + w.served.GroupVersion().String()
}

func (w *walk) add(verb, namespace, name, subresource, method, path, body, media string) {
	if method != "GET" && method != "HEAD" && method != "OPTIONS" {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "dryRun=All" // existing objects stay as they are
	}
	takes := right{verb: verb, group: w.served.Group, version: w.served.GroupVersionKind.Version, resource: w.served.Resource, subresource: subresource, namespace: namespace, name: name}
	if name == "" || verb == "list" || verb == "watch" {
		_, query, _ := strings.Cut(path, "?")
		values, _ := url.ParseQuery(query) // the walk has valid queries only
		takes.fields, takes.labels = values.Get("fieldSelector"), values.Get("labelSelector")
	}
	w.steps = append(w.steps, step{method, path, body, cmp.Or(media, "application/json"), takes})
}

func (w *walk) everything() {
	space, in := "", ""
	if w.served.Namespaced {
		space, in = "default", "/namespaces/default"
	}
	r := w.served.Resource
	object := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"walk"}}`, w.served.GroupVersion(), w.served.GroupVersionKind.Kind)
	all := w.root() + in + "/" + r
	w.add("list", space, "", "", "GET", all, "", "")
	w.add("list", space, "", "", "HEAD", all, "", "")
	w.add("", space, "", "", "OPTIONS", all, "", "")
	w.add("list", space, "", "", "GET", all+"?labelSelector=a%3Db&fieldSelector=metadata.namespace%3Ddefault", "", "")
	w.add("list", space, "one", "", "GET", all+"?fieldSelector=metadata.name%3Done", "", "")
	w.add("watch", space, "", "", "GET", all+"?watch=1&timeoutSeconds=-1", "", "")
	w.add("watch", space, "", "", "GET", all+"?watch=1&timeoutSeconds=-1&labelSelector=a+in+(b%2Cc)", "", "")
	w.add("watch", space, "one", "", "GET", all+"?watch=true&timeoutSeconds=-1&fieldSelector=metadata.name%3Done", "", "")
	w.add("watch", space, "", "", "GET", w.root()+"/watch"+in+"/"+r+"?timeoutSeconds=-1", "", "")
	within := space
	if r == "namespaces" {
		within = "one" // a Namespace is within itself
	}
	w.add("watch", within, "one", "", "GET", w.root()+"/watch"+in+"/"+r+"/one?timeoutSeconds=-1", "", "")
	w.add("proxy", within, "one", "", "GET", w.root()+"/proxy"+in+"/"+r+"/one", "", "")
	w.add("create", space, "", "", "POST", all, object, "")
	w.add("update", space, "", "", "PUT", all, object, "")
	w.add("patch", space, "", "", "PATCH", all, "{}", "application/merge-patch+json")
	w.add("deletecollection", space, "", "", "DELETE", all, "", "")
	w.add("deletecollection", space, "", "", "DELETE", all+"?fieldSelector=metadata.name%3Done&labelSelector=%21a", "", "")
	if w.served.Namespaced {
		w.add("list", "", "", "", "GET", w.root()+"/"+r, "", "")
		w.add("watch", "", "", "", "GET", w.root()+"/"+r+"?watch=1&timeoutSeconds=-1", "", "")
		w.add("watch", "", "", "", "GET", w.root()+"/watch/"+r+"?timeoutSeconds=-1", "", "")
		w.add("create", "", "", "", "POST", w.root()+"/"+r, object, "")
		w.add("deletecollection", "", "", "", "DELETE", w.root()+"/"+r, "", "")
	}
	if r == "namespaces" {
		space = "walk"
	}
	w.item(space, "", all+"/walk", object)
	for _, name := range append(subresources(w.served), "nothing") {
		if r == "namespaces" && name == "nothing" {
			continue // the path is that of a type in the namespace
		}
		w.item(space, name, all+"/walk/"+name, `{"metadata":{"name":"walk"}}`)
	}
}

// item adds the requests for an object, or for a subresource of it.
func (w *walk) item(space, subresource, path, object string) {
	w.add("get", space, "walk", subresource, "GET", path, "", "")
	w.add("get", space, "walk", subresource, "GET", path+"?labelSelector=a%3Db", "", "")
	w.add("get", space, "walk", subresource, "HEAD", path, "", "")
	w.add("update", space, "walk", subresource, "PUT", path, object, "")
	w.add("create", space, "walk", subresource, "POST", path, object, "")
	w.add("delete", space, "walk", subresource, "DELETE", path, "", "")
	for _, media := range []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"} {
		w.add("patch", space, "walk", subresource, "PATCH", path, map[bool]string{true: "[]", false: "{}"}[media == "application/json-patch+json"], media)
	}
	w.add("patch", space, "walk", subresource, "PATCH", path+"?fieldManager=m", object, "application/apply-patch+yaml")
	if subresource == "proxy" {
		w.add("get", space, "walk", subresource, "GET", path+"/a/b", "", "")
	}
}

func subresources(s *resources.Served) (names []string) {
	for name := range s.Subresources {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// besides tells whether a request may need this right in addition to its own: to create an object that does not exist, for what a role or
// certificate grants, for the objects of a history, to connect to a Pod, or to act as the user of a token.
func besides(takes, asked right) bool {
	switch {
	case strings.HasPrefix(takes.group, "rbac.") && (asked.verb == "escalate" || asked.verb == "bind"):
		return true
	case takes.group == history.GroupName:
		return asked == right{verb: "list", group: "*", version: "*", resource: "*", namespace: takes.namespace}
	case takes.path == server.TokensPath:
		return asked == right{verb: "impersonate", resource: "users", name: "jane"}
	case takes.verb == "update" || takes.verb == "patch" || slices.Contains([]string{"exec", "attach", "portforward"}, takes.subresource):
		takes.verb = "create"
		return asked == takes
	}
	return slices.Contains([]string{"approve", "sign", "attest"}, asked.verb)
}

// Without rights, every request gets 401 or 403. With the right that it needs, a request is not rejected, unless it needs a known second one. The
// right is that of the request's method and path.
func TestEveryRouteTakesItsRight(t *testing.T) {
	g, h, allowed, steps := walked(t)
	if len(steps) < 5000 {
		t.Fatalf("there are only %d steps", len(steps))
	}
	second := map[string]bool{}
	for _, s := range steps {
		*allowed = false
		if code, _, asked := g.with(nil, h, "", s); code != 401 || len(asked) > 0 {
			t.Errorf("%s by nobody: %d, after %v was asked", s, code, asked)
		}
		*allowed = true
		for _, who := range []string{"", "known"} {
			code, body, asked := g.with(nil, h, who, s)
			if code != 403 || len(asked) != 1 || asked[0] != s.takes {
				t.Errorf("%s by %q without rights: %d, after %+v was asked, want %+v: %s", s, who, code, asked, s.takes, body)
			}
		}
		if strings.HasSuffix(s.path, "/pprof/profile") || strings.HasSuffix(s.path, "/pprof/trace") {
			continue // they run for as long as requested
		}
		code, body, asked := g.with(&s.takes, h, "known", s)
		if code == 401 || len(asked) == 0 || asked[0] != s.takes {
			t.Errorf("%s with the right %+v: %d, after %+v was asked", s, s.takes, code, asked)
		}
		for _, more := range asked[1:] {
			second[more.verb] = true
			if more != s.takes && !besides(s.takes, more) {
				t.Errorf("%s takes %+v, too", s, more)
			}
		}
		if code == 403 && len(asked) < 2 {
			t.Errorf("%s with the right %+v: %d %s", s, s.takes, code, body)
		}
	}
	for _, verb := range []string{"create", "escalate", "list", "impersonate"} {
		if !second[verb] {
			t.Errorf("no request takes the right to %s in addition to its own", verb)
		}
	}
}

// A right allows the requests that need it and no others: of some kinds and paths each right is held against each request, and of all others against
// those next to it in the walk, which are mostly about the same type, and some far from it.
func TestRightsOpenNothingElse(t *testing.T) {
	g, h, _, steps := walked(t)
	try := func(given, s step) {
		t.Helper()
		if s.takes == given.takes {
			return
		}
		if code, body, _ := g.with(&given.takes, h, "known", s); code != 403 {
			t.Fatalf("%+v opens %s: %d %s", given.takes, s, code, body)
		}
	}
	kinds := []string{"pods", "namespaces", "serviceaccounts", "certificatesigningrequests", "clusterthings", "selfsubjectreviews", "others"}
	var all, each []step // one of those that need the same right: TestEveryRouteTakesItsRight sends all
	known := map[right]bool{}
	for _, s := range steps {
		if known[s.takes] {
			continue
		}
		known[s.takes] = true
		all = append(all, s)
		if slices.Contains(kinds, s.takes.resource) || s.takes.path != "" && (s.method == "GET" || s.method == "POST") &&
			(!strings.HasPrefix(s.path, "/apis/") || strings.Count(s.path, "/") >= 4) {
			each = append(each, s)
		}
	}
	if len(each) < 120 || len(all) < 3000 {
		t.Fatalf("%d steps take %d rights, or %d", len(steps), len(all), len(each))
	}
	for _, given := range each {
		for _, s := range each {
			try(given, s)
		}
	}
	const near, far = 10, 3
	for i, given := range all {
		for n := range near {
			try(given, all[(i+n+1)%len(all)])
		}
		for n := range far {
			try(given, all[(i+(n+1)*len(all)/(far+1))%len(all)])
		}
	}
}
