package handlers_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/server"
)

// converter is a webhook that converts widgets: field "one" of version v1 is "other" in v2.
type converter struct {
	*httptest.Server
	// answer, when set, responds instead; it returns false for objects that are to be converted.
	answer atomic.Pointer[func(w http.ResponseWriter, review gjson.Result) bool]
	// hangs, when set, receives the context of each request, which gets no response.
	hangs atomic.Pointer[chan context.Context]
	// requests and objects count the calls and the objects in them.
	requests, objects atomic.Int64
}

func newConverter(t testing.TB) *converter {
	t.Helper()
	c := &converter{}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		review := gjson.ParseBytes(data)
		c.requests.Add(1)
		c.objects.Add(review.Get("request.objects.#").Int())
		if hangs := c.hangs.Load(); hangs != nil {
			*hangs <- r.Context()
			<-r.Context().Done()
			return
		}
		if answer := c.answer.Load(); answer != nil && (*answer)(w, review) {
			return
		}
		c.convert(w, review)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *converter) convert(w http.ResponseWriter, review gjson.Result) {
	to := review.Get("request.desiredAPIVersion").Str
	converted := []json.RawMessage{}
	for _, o := range review.Get("request.objects").Array() {
		raw := strings.Replace(o.Raw, o.Get("apiVersion").Str, to, 1)
		if strings.HasSuffix(to, "v2") {
			raw = strings.Replace(raw, `"one"`, `"other"`, 1)
		} else {
			raw = strings.Replace(raw, `"other"`, `"one"`, 1)
		}
		converted = append(converted, json.RawMessage(raw))
	}
	respond(w, review, map[string]any{"status": "Success"}, converted)
}

func respond(w http.ResponseWriter, review gjson.Result, result map[string]any, converted []json.RawMessage) {
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.Get("apiVersion").Str, "kind": "ConversionReview", "response": map[string]any{
		"uid": review.Get("request.uid").Str, "result": result, "convertedObjects": converted}})
}

// answers sets the alternative response; nil: the webhook converts.
func (c *converter) answers(f func(w http.ResponseWriter, review gjson.Result) bool) {
	c.answer.Store(&f)
	if f == nil {
		c.answer.Store(nil)
	}
}

func (c *converter) down() {
	c.answers(func(w http.ResponseWriter, _ gjson.Result) bool {
		http.Error(w, "down", http.StatusInternalServerError)
		return true
	})
}

// asked returns and resets the counts.
func (c *converter) asked() (requests, objects int64) { return c.requests.Swap(0), c.objects.Swap(0) }

// wants fails unless the counts since the last check are these.
func (c *converter) wants(t *testing.T, what string, requests, objects int64) {
	t.Helper()
	if r, o := c.asked(); r != requests || o != objects {
		t.Errorf("%s: the webhook had %d requests for %d objects, want %d for %d", what, r, o, requests, objects)
	}
}

// definition is that of widgets in two versions, converted by the webhook. review is the version of the ConversionReview.
func (c *converter) definition(review string) string {
	schema := func(field string) string {
		return fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"integer"}}}`, field)
	}
	body := widgetDefinition(widgetVersion("v1", schema("one"), true), widgetVersion("v2", schema("other"), false))
	conversion := fmt.Sprintf(`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":[%q],"clientConfig":{"url":%q,"caBundle":%q}}},"versions"`,
		review, c.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})))
	return strings.Replace(body, `"versions"`, conversion, 1)
}

func widgetAsV2(name, spec string) string {
	return strings.Replace(widget(name, spec), "/v1", "/v2", 1)
}

// partially requests metadata.
func partially(media, list string) says {
	return says{"Accept": media + ";as=PartialObjectMetadata" + list + ";v=v1;g=meta.k8s.io"}
}

// undecodable is the error for a widget that cannot be converted, whose resourceVersion was kept under name.
func undecodable(name, why string) string {
	return "object not decodable revision={" + name + "}: " + why
}

// keptAs keeps the resourceVersion of an object under a name.
func keptAs(name string) says { return says{name: "metadata.resourceVersion"} }

// A webhook converts objects for responses in another version than the stored one.
func TestConversionByWebhook(t *testing.T) {
	for _, review := range []string{"v1", "v1beta1"} {
		t.Run(review, func(t *testing.T) {
			a, hook := newAPI(t), newConverter(t)
			a.run(
				exchange{do: "POST " + definitions, body: hook.definition(review), code: 201},
				exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201},
				exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec": `{"other":1}`, "apiVersion": "example.com/v2"}},
				exchange{do: "POST " + widgetsAsV2, body: widgetAsV2("b", `{"other":2}`), code: 201, says: says{"spec": `{"other":2}`}},
				exchange{do: "GET " + widgets + "/b", code: 200, says: says{"spec": `{"one":2}`}},
				exchange{do: "GET " + widgetsAsV2, code: 200, says: says{"items.#.spec.other": "[1,2]"}},
				exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{"spec":{"other":3}}`, code: 200, says: says{"spec": `{"other":3}`}},
				exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": `{"one":3}`}},
			)
			hook.down()
			a.run(exchange{do: "GET " + widgets, code: 200, keep: keptAs("before")},
				exchange{do: "POST " + widgets, body: widget("c", `{"one":1}`), code: 201, keep: keptAs("c")},
				exchange{do: "POST " + widgets, body: widget("d", `{"one":1}`), code: 201, keep: keptAs("d")})
			const why = `conversion webhook for example.com/v1, Kind=Widget failed: an error on the server ("down") has prevented the request from succeeding`
			c, d := undecodable("c", why), undecodable("d", why)
			corrupt := func(key, what string) string {
				return "StorageError: corrupt object, Code: 7, Key: " + key + ", ResourceVersion: 0, AdditionalErrorMsg: " + what
			}
			inList := "failed to read one or more widgets.example.com from the storage: " + corrupt("/registry/example.com/widgets/test/c", c) + " (and 1 more)"
			notReady := says{"reason": "TooManyRequests", "details.retryAfterSeconds": "1", "message": "storage is (re)initializing: failed to list <unspecified>: " + inList}
			plain := says{"kind": "Status", "message": c, "reason": "-", "details": "-"}
			a.run(
				exchange{do: "GET " + widgetsAsV2 + "/c", code: 500, says: says{"reason": "InternalError",
					"message": "Internal error occurred: " + corrupt("/example.com/widgets/test/c", c)}},
				exchange{do: "GET " + widgetsAsV2, code: 429, says: notReady},
				exchange{do: "GET " + widgetsAsV2 + "?limit=500", code: 500, says: says{"reason": "StorageReadError", "message": inList,
					"details.causes.#.field": `["/registry/example.com/widgets/test/c","/registry/example.com/widgets/test/d"]`,
					"details.causes.1":       fmt.Sprintf(`{"reason":"UnexpectedServerResponse","message":%q,"field":"/registry/example.com/widgets/test/d"}`, corrupt("/registry/example.com/widgets/test/d", d))}},
				exchange{do: "GET " + widgetsAsV2 + "?watch=1&timeoutSeconds=5", code: 429, says: notReady},
				exchange{do: "GET " + widgetsAsV2 + "?watch=1&timeoutSeconds=5&resourceVersion={before}", code: 200, says: says{"type": "ERROR", "object.code": "500", "object.message": c}},
				exchange{do: "PATCH " + widgetsAsV2 + "/c", header: asMergePatch, body: `{"spec":{"other":3}}`, code: 500, says: plain},
				exchange{do: "PATCH " + widgetsAsV2 + "/c?dryRun=All", header: asMergePatch, body: `{"spec":{"other":3}}`, code: 500, says: says{"reason": "InternalError",
					"message": "Internal error occurred: " + corrupt("/example.com/widgets/test/c", c)}},
				exchange{do: "PUT " + widgetsAsV2 + "/c", body: widgetAsV2("c", `{"other":2}`), code: 500, says: plain},
			)
		})
	}
}

// A webhook is called once for each object and resourceVersion, and for many objects in one call.
func TestConversionsAreRemembered(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	const many = 150
	for i := range many {
		a.run(exchange{do: "POST " + widgets, body: widget(fmt.Sprintf("w%03d", i), `{"one":1}`), code: 201})
	}
	hook.wants(t, "writes in the version that is stored", 0, 0)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			if code, answer := a.request("GET", widgetsAsV2, "", nil); code != 200 || gjson.Get(answer, "items.#(spec.other==1)#|#").Int() != many {
				t.Errorf("%d %.300s", code, answer)
			}
		})
	}
	work.Wait()
	hook.wants(t, "eight lists at the same time", 3, many)
	list := says{"items.#": fmt.Sprint(many)}
	a.run(
		exchange{do: "GET " + widgetsAsV2, code: 200, says: list},
		exchange{do: "GET " + widgetsAsV2, header: says{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, code: 200, says: says{"rows.#": fmt.Sprint(many)}},
		exchange{do: "GET " + widgetsAsV2 + "/w007", code: 200, says: says{"spec.other": "1"}},
		exchange{do: "GET " + widgetsAsV2 + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", code: 200},
	)
	hook.wants(t, "reads of what was read before", 0, 0)
	a.run(exchange{do: "POST " + widgetsAsV2, body: widgetAsV2("new", `{"other":1}`), code: 201})
	hook.wants(t, "a create: to be stored, and to be shown", 2, 2)
	a.run(exchange{do: "GET " + widgetsAsV2 + "/new", code: 200, keep: says{"rv": "metadata.resourceVersion"}},
		exchange{do: "PUT " + widgetsAsV2 + "/new", body: strings.Replace(widgetAsV2("new", `{"other":2}`), `"name"`, `"resourceVersion":"{rv}","name"`, 1),
			code: 200, says: says{"spec": `{"other":2}`}})
	hook.wants(t, "an update: to be stored, and to be shown", 2, 2)
	a.run(exchange{do: "GET " + widgetsAsV2 + "/new", code: 200, keep: says{"before": "metadata.resourceVersion"}},
		exchange{do: "DELETE " + widgetsAsV2 + "/new", code: 200})
	_, events := a.request("GET", a.fill(widgetsAsV2+"?watch=1&timeoutSeconds=1&resourceVersion={before}"), "", nil)
	if e := gjson.Parse(events); e.Get("type").Str != "DELETED" || e.Get("object.apiVersion").Str != "example.com/v2" || e.Get("object.spec.other").Int() != 2 {
		t.Errorf("the deletion is seen as %s", events)
	}
	hook.wants(t, "a deletion, which is seen", 0, 0)
}

// If a call for many objects fails, the error for one object is kube-apiserver's, which converts objects one by one; a webhook that supports only
// one object per call keeps working.
func TestConversionOneByOne(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	for i := range 5 {
		name := fmt.Sprintf("w%d", i)
		a.run(exchange{do: "POST " + widgets, body: widget(name, `{"one":1}`), code: 201, keep: keptAs(name)})
	}
	hook.answers(func(w http.ResponseWriter, review gjson.Result) bool {
		for _, o := range review.Get("request.objects").Array() {
			if o.Get("metadata.name").Str == "w3" {
				respond(w, review, map[string]any{"status": "Failure", "message": "w3 is odd"}, nil)
				return true
			}
		}
		return false
	})
	a.run(exchange{do: "GET " + widgetsAsV2 + "?limit=5", code: 500, says: says{"details.causes.#.field": `["/registry/example.com/widgets/test/w3"]`}})
	a.run(exchange{do: "GET " + widgetsAsV2 + "/w3", code: 500, says: says{"details.causes.0.message": "StorageError: corrupt object, Code: 7, " +
		"Key: /example.com/widgets/test/w3, ResourceVersion: 0, AdditionalErrorMsg: " +
		undecodable("w3", "conversion webhook for example.com/v1, Kind=Widget failed: w3 is odd")}})
	hook.answers(func(w http.ResponseWriter, review gjson.Result) bool {
		if review.Get("request.objects.#").Int() > 1 {
			respond(w, review, map[string]any{"status": "Success"}, []json.RawMessage{})
			return true
		}
		return false
	})
	a.run(exchange{do: "GET " + widgetsAsV2, code: 200, says: says{"items.#.spec.other": "[1,1,1,1,1]"}})
	hook.asked()
	a.run(exchange{do: "GET " + widgetsAsV2, code: 200})
	hook.wants(t, "what was converted one by one", 0, 0)
	hook.answers(func(w http.ResponseWriter, review gjson.Result) bool {
		respond(w, review, map[string]any{"status": "Success"}, []json.RawMessage{json.RawMessage(`{"apiVersion":"example.com/v3","kind":"Widget"}`)})
		return true
	})
	a.run(exchange{do: "POST " + widgets, body: widget("w9", `{"one":1}`), code: 201, keep: keptAs("w9")},
		exchange{do: "PATCH " + widgetsAsV2 + "/w9", header: asMergePatch, body: `{}`, code: 500, says: says{
			"message": undecodable("w9", "conversion webhook for example.com/v1, Kind=Widget returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)")}})
}

// A webhook behind a missing Service causes upstream's error.
func TestWebhookWithoutItsService(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	body := strings.Replace(hook.definition("v1"), fmt.Sprintf(`"url":%q`, hook.URL), `"service":{"namespace":"default","name":"nosvc"}`, 1)
	a.run(exchange{do: "POST " + definitions, body: body, code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201, keep: keptAs("a")},
		exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{}`, code: 500, says: says{"message": undecodable("a",
			`conversion webhook for example.com/v1, Kind=Widget failed: Post "https://nosvc.default.svc:443/?timeout=30s": service "nosvc" not found`)}})
}

// With the flag, webhooks are called at the endpoints of their Services. The server's own Service always means the server itself.
func TestWebhooksAtEndpoints(t *testing.T) {
	for service, why := range map[string]string{
		`{"namespace":"test","name":"hook"}`:                           `Post "https://hook.test.svc:443/?timeout=30s": no endpoints available for service "hook"`,
		`{"namespace":"default","name":"kubernetes","path":"/nosuch"}`: "the server could not find the requested resource",
	} {
		a := newAPIWith(t, nil, func(c *server.Config) { c.Definitions.(*custom.Definitions).ServiceRouting = behind.ToEndpoints })
		hook := newConverter(t)
		a.run(exchange{do: "POST /api/v1/namespaces/test/services", body: `{"metadata":{"name":"hook"},"spec":{"clusterIP":"None","ports":[{"port":443}]}}`, code: 201},
			exchange{do: "POST " + definitions, body: strings.Replace(hook.definition("v1"), fmt.Sprintf(`"url":%q`, hook.URL), `"service":`+service, 1), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201, keep: keptAs("a")},
			exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{}`, code: 500, says: says{
				"message": undecodable("a", "conversion webhook for example.com/v1, Kind=Widget failed: "+why)}})
	}
}

// A webhook that is down prevents neither deletions of any kind nor reads of metadata: it is not called. The storage version is not served here, so
// that requests cannot use it.
func TestWebhookThatIsDown(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.work()
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
		exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"doomed"}}`, code: 201})
	named := func(name, metadata string) string {
		return strings.Replace(widget(name, `{"one":1}`), `"name":"`+name+`"`, `"name":"`+name+`",`+metadata, 1)
	}
	post := func(name, metadata string) {
		a.run(exchange{do: "POST " + widgets, body: named(name, metadata), code: 201, keep: says{name: "metadata.uid"}})
	}
	owner := func(names ...string) string {
		var refs []string
		for _, name := range names {
			refs = append(refs, fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Widget","name":%q,"uid":%q,"blockOwnerDeletion":true}`, name, a.kept[name]))
		}
		return `"ownerReferences":[` + strings.Join(refs, ",") + `]`
	}
	const none = `"labels":{"kind":"plain"}`
	for _, name := range []string{"plain", "collected", "background", "foreground", "orphan", "solid", "left"} {
		post(name, none)
	}
	post("kept", `"finalizers":["example.com/f"]`)
	post("of-background", owner("background"))
	post("of-foreground", owner("foreground"))
	post("of-orphan", owner("orphan"))
	post("of-both", owner("background", "solid"))
	a.run(exchange{do: "POST /apis/example.com/v1/namespaces/doomed/widgets", body: widget("there", `{"one":1}`), code: 201},
		// From here on the storage version is not served.
		exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asJSONPatch,
			body: `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`, code: 200},
		exchange{do: "GET " + widgets, code: 404})
	hook.down()
	hook.asked()
	background := `{"propagationPolicy":"Background"}`
	a.run(
		exchange{do: "GET " + widgetsAsV2 + "/plain", header: partially("application/json", ""), code: 200, says: says{"metadata.name": "plain"}},
		exchange{do: "GET " + widgetsAsV2 + "/plain", header: partially("application/vnd.kubernetes.protobuf", ""), code: 200},
		exchange{do: "GET " + widgetsAsV2, header: partially("application/json", "List"), code: 200, says: says{"items.#": "12"}},
		exchange{do: "GET " + widgetsAsV2, header: partially("application/vnd.kubernetes.protobuf", "List"), code: 200},
		exchange{do: "GET " + widgetsAsV2 + "?watch=1&timeoutSeconds=1", header: partially("application/json", ""), code: 200, says: says{"type": "ADDED"}},
		exchange{do: "GET " + widgetsAsV2 + "?watch=1&timeoutSeconds=1", header: partially("application/vnd.kubernetes.protobuf", ""), code: 200},
		exchange{do: "DELETE " + widgetsAsV2 + "/plain", code: 200, says: says{"status": "Success"}},
		exchange{do: "DELETE " + widgetsAsV2 + "?fieldSelector=metadata.name%3Dcollected", code: 200, says: says{"items.#.metadata.name": `["collected"]`}},
		exchange{do: "DELETE " + widgetsAsV2 + "/kept", code: 200, says: says{"apiVersion": "example.com/v1", "metadata.name": "kept"}},
		exchange{do: "DELETE " + widgetsAsV2 + "/background", body: background, code: 200},
		exchange{do: "DELETE " + widgetsAsV2 + "/foreground", body: `{"propagationPolicy":"Foreground"}`, code: 200},
		exchange{do: "DELETE " + widgetsAsV2 + "/orphan", body: `{"propagationPolicy":"Orphan"}`, code: 200},
		exchange{do: "DELETE /api/v1/namespaces/doomed", code: 200},
	)
	names := func() string {
		_, answer := a.request("GET", "/apis/example.com/v2/widgets", "", partially("application/json", "List"))
		return gjson.Get(answer, "items.#.metadata.name").Raw
	}
	a.until("widgets.example.com", "what belongs to what was deleted goes", func() bool { return names() == `["kept","left","of-both","of-orphan","solid"]` })
	a.until("widgets.example.com", "owners that are gone are no owners", func() bool {
		_, answer := a.request("GET", "/apis/example.com/v2/widgets", "", partially("application/json", "List"))
		return gjson.Get(answer, "items.#.metadata.ownerReferences.#.name").Raw == `[["solid"]]`
	})
	a.until("namespaces", "the namespace goes", func() bool {
		code, _ := a.request("GET", "/api/v1/namespaces/doomed", "", nil)
		return code == http.StatusNotFound
	})
	a.run(exchange{do: "PATCH " + widgetsAsV2 + "/kept", header: says{"Content-Type": "application/merge-patch+json", "Accept": partially("application/json", "")["Accept"]},
		body: `{"metadata":{"finalizers":null}}`, code: 200, says: says{"kind": "PartialObjectMetadata"}},
		exchange{do: "GET " + widgetsAsV2 + "/kept", header: partially("application/json", ""), code: 404},
		exchange{do: "DELETE " + definitions + "/widgets.example.com", code: 200})
	a.until("customresourcedefinitions.apiextensions.k8s.io", "the definition goes", func() bool {
		code, _ := a.request("GET", definitions+"/widgets.example.com", "", nil)
		return code == http.StatusNotFound
	})
	hook.wants(t, "all of that", 0, 0)
}
