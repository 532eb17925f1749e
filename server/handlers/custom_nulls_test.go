package handlers_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// If an apply in another version removes a field or sets it to null, and the schema does not allow that, it is rejected: the field is not dropped
// by the conversion between versions. The expected responses are those of an unmodified kube-apiserver v1.37.1.
func TestNullsAppliedInAnotherVersion(t *testing.T) {
	const spec = `{"type":"object","required":["size"],"properties":{"size":{"type":"integer"},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"s":{"type":"string"},"labels":{"type":"object","additionalProperties":{"type":"string"}}}}`
	applied := func(version, spec string) string {
		return `{"apiVersion":"example.com/` + version + `","kind":"Widget","metadata":{"name":"{name}"},"spec":` + spec + `}`
	}
	for _, on := range []bool{true, false} {
		t.Run(map[bool]string{true: "fast", false: "plain"}[on], func(t *testing.T) {
			t.Cleanup(fastpath.TurnAll(on))
			a := newAPI(t)
			a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", spec, true), widgetVersion("v2", spec, false)), code: 201})
			for i, tc := range []struct{ first, second, field string }{
				{`{"size":1,"free":{"a":[1]}}`, `{}`, "spec"},
				{`{"size":1,"labels":{"k":"v"}}`, `{"size":1,"labels":{}}`, "spec.labels"},
				{`{"size":1,"s":"a"}`, `{"size":1,"s":null}`, "spec.s"},
				{`{"size":1,"free":{"a":1}}`, `{"size":1,"free":null}`, "spec.free"},
				{`{"size":1,"tags":["a"]}`, `{"size":1,"tags":null}`, "spec.tags"},
				{`{"size":1,"labels":{"k":"v"}}`, `{"size":1,"labels":{"k":null}}`, "spec.labels.k"},
				{`{"size":1,"s":"a"}`, `{"size":2}`, ""},
			} {
				name := "w" + string(rune('a'+i))
				path := "PATCH " + strings.Replace(widgets, "/v1/", "/{version}/", 1) + "/" + name + "?fieldManager=m&force=true"
				at := func(version string) string { return strings.Replace(path, "{version}", version, 1) }
				second := exchange{do: at("v2"), header: asApply, body: strings.Replace(applied("v2", tc.second), "{name}", name, 1), code: 200}
				if tc.field != "" {
					second.code, second.says = 422, says{"details.causes.0.field": tc.field}
				}
				a.run(exchange{do: at("v1"), header: asApply, body: strings.Replace(applied("v1", tc.first), "{name}", name, 1), code: 201}, second)
			}
		})
	}
}

// A stored zero has no sign: kube-apiserver's response is decoded from the stored object.
func TestZerosHaveNoSign(t *testing.T) {
	test := func(t *testing.T, a *api) {
		a.TB = t
		const spec = `{"type":"object","properties":{"size":{"type":"integer"},"share":{"type":"number"},"any":{"x-kubernetes-preserve-unknown-fields":true}}}`
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", spec, true)), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":-0.0,"share":-0.0,"any":{"-0.5":"-0","list":[-0.0,-0.5]}}`), code: 201,
				says: says{"spec": `{"any":{"-0.5":"-0","list":[0,-0.5]},"share":0,"size":0}`}},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": `{"any":{"-0.5":"-0","list":[0,-0.5]},"share":0,"size":0}`}},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"share":-0e0,"any":-0.0}}`, code: 200, says: says{"spec": `{"any":0,"share":0,"size":0}`}},
			exchange{do: "PATCH " + widgets + "/a", header: asJSONPatch, body: `[{"op":"add","path":"/spec/size","value":-0.0}]`, code: 200, says: says{"spec": `{"any":0,"share":0,"size":0}`}})
	}
	test(t, newAPI(t))
	t.Run("without fast paths", func(t *testing.T) {
		t.Cleanup(fastpath.TurnAll(false))
		test(t, newAPI(t))
	})
}
