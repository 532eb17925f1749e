package handlers_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// whatVaries matches values that differ between two servers.
var whatVaries = regexp.MustCompile(`\\*"(uid|resourceVersion|creationTimestamp|time)\\*":\\*"[^"\\]*\\*",?`)

// present is a Widget at its current resourceVersion, RV.
func present(name, spec string) string {
	return strings.Replace(widget(name, spec), `"name":"`+name+`"`, `"name":"`+name+`","resourceVersion":"RV"`, 1)
}

// sentWidgets are writes of a Widget. Those with plain set must cause no fallbacks.
var sentWidgets = []struct {
	do, body string
	header   says
	plain    bool
}{
	{do: "POST " + widgets, body: widget("a", `{"size":3,"tags":["x","y"]}`), plain: true},
	{do: "PUT " + widgets + "/a", body: present("a", `{"size":4,"color":"blue"}`), plain: true},
	{do: "PUT " + widgets + "/a", body: present("a", `{"size":4,"color":"blue"}`), plain: true},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"<&\u2028>"}}}`, plain: true},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, plain: true},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"labels":null},"spec":{"size":5,"tags":["z",null]}}`},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"labels":null},"spec":{"size":5,"tags":["z"]}}`, plain: true},
	{do: "PATCH " + widgets + "/a", header: asJSONPatch, body: `[{"op":"replace","path":"/spec/size","value":6}]`, plain: true},
	{do: "PATCH " + widgets + "/a", header: asJSONPatch, body: `[{"op":"add","path":"/spec/junk","value":6}]`},
	{do: "PATCH " + widgets + "/a/status", header: asMergePatch, body: `{"status":{"replicas":3}}`, plain: true},
	{do: "PATCH " + widgets + "/a/status", header: asMergePatch, body: `{"status":{"replicas":3}}`, plain: true},
	{do: "PATCH " + widgets + "/a/status", header: asMergePatch, body: `{"status":{"replicas":"x"}}`},
	{do: "PATCH " + widgets + "/a/scale", header: asMergePatch, body: `{"spec":{"replicas":2}}`},
	{do: "PATCH " + widgets + "/a?fieldManager=me", header: asApply, body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"replicas":2}}`},
	{do: "PATCH " + widgets + "/a?fieldManager=me", header: asApply, body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"replicas":2}}`},
	{do: "PATCH " + widgets + "/a?fieldManager=other", header: asMergePatch, body: `{"metadata":{"managedFields":[{"manager":"m\u0007","operation":"Update","fieldsType":"FieldsV1"}]}}`},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"managedFields":[{"manager":"m","operation":"Remove","fieldsType":"FieldsV1"}]}}`},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"managedFields":[{"manager":"m","operation":"Update","fieldsType":"FieldsV2"}]}}`},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"creationTimestamp":"2026-05-04T10:20:30.5+02:00"},"spec":{"size":7}}`},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]}}`, plain: true},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"ownerReferences":[{"kind":"K","name":"n","uid":"u"}]}}`},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"managedFields":[]}}`},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"apiVersion":"example.com/v2","spec":{"size":8}}`},
	{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"kind":null}`},
	{do: "PUT " + widgets + "/a", body: `{"apiVersion":"example.com/v1","metadata":{"name":"a","resourceVersion":"RV"},"spec":{"size":8}}`},
	{do: "PUT " + widgets + "/a", body: `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a","resourceVersion":"RV"},"spec":{"size":8}}`},
	{do: "PUT " + widgets + "/a", body: `{"apiVersion":"example.com/v1","kind":"Widget","kind":"Widget","metadata":{"name":"a","resourceVersion":"RV"},"spec":{"size":8,"size":9}}`},
	{do: "PUT " + widgets + "/a?fieldValidation=Strict", body: present("a", `{"size":8,"junk":1,"tags":["a","a"]}`)},
	{do: "PUT " + widgets + "/a?fieldValidation=Ignore", body: present("a", `{"size":8,"size":9,"junk":1}`)},
	{do: "PUT " + widgets + "/a", body: present("a", `{"size":8.0}`)},
	{do: "PUT " + widgets + "/a", body: present("a", `{"size":null}`)},
	{do: "PUT " + widgets + "/a", body: `[]`},
	{do: "PUT " + widgets + "/a", body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"RV"},"items":[]}`},
	{do: "GET " + widgets + "/a", plain: true},
}

// Responses about custom resources are the same without fast paths, and plain writes cause no fallbacks.
func TestWritesOfCustomResourcesByFastPaths(t *testing.T) {
	var answers [2][]string
	for i, on := range []bool{true, false} {
		back := fastpath.TurnAll(on)
		a := newAPI(t)
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201})
		for _, s := range sentWidgets {
			_, live := a.request("GET", widgets+"/a", "", nil)
			left := fellBack()
			method, path, _ := strings.Cut(s.do, " ")
			code, body := a.request(method, path, strings.Replace(s.body, "RV", gjson.Get(live, "metadata.resourceVersion").Str, 1), s.header)
			answers[i] = append(answers[i], fmt.Sprint(s.do, " ", s.body, ": ", code, " ", whatVaries.ReplaceAllString(managersInOrder(body), "")))
			if s.plain && code >= http.StatusBadRequest {
				t.Errorf("%s %s: %d %s", s.do, s.body, code, body)
			}
			if now := fellBack(); on && s.plain && now != left {
				t.Errorf("%s %s: left to the plain way: %s, before %s", s.do, s.body, now, left)
			}
		}
		back()
	}
	for i, with := range answers[0] {
		if without := answers[1][i]; with != without {
			t.Errorf("with fast paths:\n%s\nwithout:\n%s", with, without)
		}
	}
}

// managersInOrder returns a response with its managers in an order that does not depend on the time of their writes.
func managersInOrder(body string) string {
	body = quotedManagers.ReplaceAllString(body, "managedFields") // in an object that an error quotes
	fields := gjson.Get(body, "metadata.managedFields")
	var all []string
	for _, m := range fields.Array() {
		all = append(all, m.Get("manager").Str+" "+m.Get("operation").Str+" "+m.Get("subresource").Str+m.Raw)
	}
	slices.Sort(all)
	return strings.Replace(body, fields.Raw, strings.Join(all, ","), 1)
}

var quotedManagers = regexp.MustCompile(`managedFields\\+":\[[^]]*\]`)

// fellBack returns the counters of fallbacks that custom resources may cause.
func fellBack() string {
	var all []string
	for _, p := range []*fastpath.Path{fastpath.StoredKind, fastpath.BodyKind, fastpath.MergePatch, fastpath.JSONPatch, fastpath.ManagedFields,
		fastpath.CustomValidation, fastpath.CustomDefaults, fastpath.CustomPlans, fastpath.CustomCEL} {
		all = append(all, fmt.Sprint(p.Name, " ", p.Fallbacks()))
	}
	return strings.Join(all, ", ")
}
