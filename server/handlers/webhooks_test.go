package handlers_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

const (
	mutatingConfigurations   = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	validatingConfigurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
)

// reviewer is an admission webhook.
type reviewer struct {
	*httptest.Server
	mu sync.Mutex
	// answers are the responses by path, without the uid. Without an entry, everything is allowed.
	answers map[string]func(request gjson.Result) map[string]any
	// asked are the calls since the last take: path and request.
	asked []askedFor
}

type askedFor struct {
	path    string
	header  http.Header
	review  gjson.Result
	request gjson.Result
}

func newReviewer(t testing.TB) *reviewer {
	t.Helper()
	v := &reviewer{answers: map[string]func(gjson.Result) map[string]any{}}
	v.Server = httptest.NewTLSServer(v)
	t.Cleanup(v.Close)
	return v
}

func (v *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	review := gjson.ParseBytes(body)
	request := review.Get("request")
	v.mu.Lock()
	v.asked = append(v.asked, askedFor{r.URL.Path, r.Header, review, request})
	answer := v.answers[r.URL.Path]
	v.mu.Unlock()
	response := map[string]any{"allowed": true}
	if answer != nil {
		if response = answer(request); response == nil {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
	}
	response["uid"] = request.Get("uid").Str
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.Get("apiVersion").Str, "kind": "AdmissionReview", "response": response})
}

// answer sets the response at a path.
func (v *reviewer) answer(path string, f func(request gjson.Result) map[string]any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[path] = f
}

// refuses is an answer that refuses everything.
func refuses(gjson.Result) map[string]any { return map[string]any{"allowed": false} }

// patches makes the response at a path a JSON Patch.
func (v *reviewer) patches(path, patch string) {
	v.answer(path, func(gjson.Result) map[string]any {
		return map[string]any{"allowed": true, "patchType": "JSONPatch", "patch": []byte(patch)}
	})
}

// take returns and clears the calls so far.
func (v *reviewer) take() []askedFor {
	v.mu.Lock()
	defer v.mu.Unlock()
	asked := v.asked
	v.asked = nil
	return asked
}

func (v *reviewer) bundle() string {
	return base64.StdEncoding.EncodeToString(pemOf(v.Server))
}

// pemOf is the certificate of a server.
func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// everything has the rules for all writes.
const everything = `[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]`

// ruleFor has the rules for all writes of one resource.
func ruleFor(group, version, resource string) string {
	return fmt.Sprintf(`[{"apiGroups":[%q],"apiVersions":[%q],"operations":["*"],"resources":[%q]}]`, group, version, resource)
}

// webhook is a webhook at a path of the reviewer; more has further members.
func (v *reviewer) webhook(path, rules, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"name":"%s.example.com","clientConfig":{"url":%q,"caBundle":%q},"rules":%s,"sideEffects":"None","admissionReviewVersions":["v1"]%s}`,
		strings.Trim(path, "/"), v.URL+path, v.bundle(), rules, more)
}

func webhooks(name string, hooks ...string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[%s]}`, name, strings.Join(hooks, ","))
}

// Webhooks are called for every write, of any verb and subresource, from the first request after the creation of their configuration on; but not
// for webhook configurations.
func TestWebhooksOfEveryWrite(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	a.run(exchange{do: "POST /api/v1/namespaces/test/pods", code: 201,
		body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`})
	mutating, validating := webhooks("m", v.webhook("/mutate", everything, "")), webhooks("v", v.webhook("/validate", everything, ""))
	a.run(exchange{do: "POST " + mutatingConfigurations, body: mutating, code: 201}, exchange{do: "POST " + validatingConfigurations, body: validating, code: 201})
	v.wants(t, "the configurations")
	const maps, pods = "/api/v1/namespaces/test/configmaps", "/api/v1/namespaces/test/pods"
	for _, c := range []struct {
		exchange
		want []string
	}{
		{exchange{do: "POST " + maps, body: `{"metadata":{"name":"a"}}`, code: 201}, both("CREATE v1 configmaps ConfigMap test/a new CreateOptions")},
		{exchange{do: "POST " + maps, body: `{"metadata":{"generateName":"b-"}}`, code: 201},
			[]string{"mutate CREATE v1 configmaps ConfigMap test/ new CreateOptions", "validate CREATE v1 configmaps ConfigMap test/b-… new CreateOptions"}},
		{exchange{do: "PUT " + maps + "/a", body: `{"metadata":{"name":"a"},"data":{"a":"b"}}`, code: 200}, both("UPDATE v1 configmaps ConfigMap test/a new old UpdateOptions")},
		{exchange{do: "PATCH " + maps + "/a", header: asMergePatch, body: `{"data":{"a":"c"}}`, code: 200}, both("UPDATE v1 configmaps ConfigMap test/a new old UpdateOptions")},
		{exchange{do: "PATCH " + maps + "/s?fieldManager=m", header: asApply, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"}}`, code: 201},
			both("CREATE v1 configmaps ConfigMap test/s new CreateOptions")},
		{exchange{do: "DELETE " + maps + "/a", code: 200}, both("DELETE v1 configmaps ConfigMap test/a old DeleteOptions")},
		{exchange{do: "DELETE " + maps + "/none", code: 404}, nil},
		{exchange{do: "DELETE " + maps + "?fieldSelector=metadata.name=s", code: 200}, both("DELETE v1 configmaps ConfigMap test/ old DeleteOptions")},
		{exchange{do: "PATCH " + pods + "/p/status", header: asMergePatch, body: `{"status":{"message":"m"}}`, code: 200},
			both("UPDATE v1 pods/status Pod test/p new old UpdateOptions")},
		{exchange{do: "POST " + pods + "/p/binding", body: `{"metadata":{"name":"p"},"target":{"name":"n"}}`, code: 201}, both("CREATE v1 pods/binding v1/Binding test/p new CreateOptions")},
		{exchange{do: "POST " + pods + "/p/eviction", body: `{"metadata":{"name":"p"}}`, code: 201}, both("CREATE v1 pods/eviction policy/v1/Eviction test/p new CreateOptions")},
		{exchange{do: "POST /apis/apps/v1/namespaces/test/deployments", code: 201, body: `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`}, both("CREATE apps/v1 deployments Deployment test/d new CreateOptions")},
		{exchange{do: "PATCH /apis/apps/v1/namespaces/test/deployments/d/scale", header: asMergePatch, body: `{"spec":{"replicas":2}}`, code: 200},
			both("UPDATE apps/v1 deployments/scale autoscaling/v1/Scale test/d new old UpdateOptions")},
		{exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"other"}}`, code: 201}, both("CREATE v1 namespaces Namespace other/other new CreateOptions")},
		{exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"generateName":"b-"}}`, code: 201}, // a generated name is not the namespace
			[]string{"mutate CREATE v1 namespaces Namespace / new CreateOptions", "validate CREATE v1 namespaces Namespace /b-… new CreateOptions"}},
		{exchange{do: "POST /apis/authentication.k8s.io/v1/selfsubjectreviews", body: `{}`, code: 201}, nil},
		{exchange{do: "PATCH " + mutatingConfigurations + "/m", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200}, nil},
		{exchange{do: "DELETE " + mutatingConfigurations + "/m", code: 200}, nil},
		{exchange{do: "POST " + maps, body: `{"metadata":{"name":"c"}}`, code: 201}, []string{"validate CREATE v1 configmaps ConfigMap test/c new CreateOptions"}},
		{exchange{do: "DELETE " + validatingConfigurations + "/v", code: 200}, nil},
		{exchange{do: "POST " + maps, body: `{"metadata":{"name":"d"}}`, code: 201}, nil},
	} {
		a.run(c.exchange)
		v.wants(t, c.do, c.want...)
	}
}

// Webhooks see the grace period of a Pod that its strategy has determined, whatever the client has requested. If the Pod is deleted at once, they
// are called with the Pod as it is, and as it is when marked for deletion.
func TestWebhooksSeeGracePeriods(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	a.run(exchange{do: "POST " + validatingConfigurations, body: webhooks("v", v.webhook("/validate", everything, "")), code: 201})
	const pods, maps = "/api/v1/namespaces/test/pods", "/api/v1/namespaces/test/configmaps"
	for _, c := range []struct {
		what, query, spec string
		want              string // the grace periods in the options and in the object
	}{
		{"on no node", "", "", `0 - 0 0`}, {"on no node", "?gracePeriodSeconds=7", "", `0 - 0 0`}, {"dry run", "?dryRun=All", "", `0 -`},
		{"on a node", "?dryRun=All", `"nodeName":"n",`, "30 -"}, {"on a node", "?gracePeriodSeconds=-1&dryRun=All", `"nodeName":"n",`, "1 -"},
		{"on a node", "?gracePeriodSeconds=0", `"nodeName":"n",`, "0 - 0 0"}, {"with its own", "?dryRun=All", `"nodeName":"n","terminationGracePeriodSeconds":5,`, "5 -"},
		{"a collection", "-", "", "- - - 0"},
	} {
		a.run(exchange{do: "POST " + pods, code: 201, body: `{"metadata":{"name":"p"},"spec":{` + c.spec + `"containers":[{"name":"c","image":"i"}]}}`})
		v.take()
		path := pods + "/p" + c.query
		if c.query == "-" {
			path = pods
		}
		a.run(exchange{do: "DELETE " + path, code: 200})
		if got := graces(v.take()); got != c.want {
			t.Errorf("%s%s: %q, want %q", c.what, c.query, got, c.want)
		}
		a.run(exchange{do: "DELETE " + pods + "?gracePeriodSeconds=0", code: 200})
	}
	a.run(exchange{do: "POST " + maps, body: `{"metadata":{"name":"a"}}`, code: 201})
	v.take()
	a.run(exchange{do: "DELETE " + maps + "/a?gracePeriodSeconds=-1", code: 200})
	if got := graces(v.take()); got != "1 -" {
		t.Errorf("a ConfigMap: %q", got)
	}
}

// graces returns the grace periods in options and objects.
func graces(asked []askedFor) string {
	var all []string
	for _, r := range asked {
		for _, path := range []string{"options.gracePeriodSeconds", "oldObject.metadata.deletionGracePeriodSeconds"} {
			text := r.request.Get(path).Raw
			if text == "" {
				text = "-"
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

// both are the calls of both webhooks.
func both(request string) []string { return []string{"mutate " + request, "validate " + request} }

// wants fails unless these are the calls since the last check.
func (v *reviewer) wants(t *testing.T, what string, want ...string) {
	t.Helper()
	var got []string
	for _, r := range v.take() {
		got = append(got, r.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: what the webhooks were asked (-want +got): %s", what, diff)
	}
}

func (r askedFor) String() string {
	version := func(of gjson.Result) string {
		return strings.TrimPrefix(of.Get("group").Str+"/"+of.Get("version").Str, "/")
	}
	resource, kind := r.request.Get("resource"), r.request.Get("kind")
	name := resource.Get("resource").Str
	if sub := r.request.Get("subResource").Str; sub != "" {
		name += "/" + sub
	}
	shown := kind.Get("kind").Str
	if version(kind) != version(resource) || strings.Contains(name, "/binding") {
		shown = version(kind) + "/" + shown
	}
	object := r.request.Get("name").Str
	if prefix, _, ok := strings.Cut(object, "-"); ok {
		object = prefix + "-…"
	}
	words := []string{strings.Trim(r.path, "/"), r.request.Get("operation").Str, version(resource), name, shown, r.request.Get("namespace").Str + "/" + object}
	if r.request.Get("object").IsObject() {
		words = append(words, "new")
	}
	if r.request.Get("oldObject").IsObject() {
		words = append(words, "old")
	}
	if options := r.request.Get("options.kind").Str; options != "" {
		words = append(words, options)
	}
	return strings.Join(words, " ")
}
