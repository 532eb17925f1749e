package handlers_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Raw data are encoded again, with sorted keys, by a patch of them, and not by other patches; fast paths agree.
func TestPatchesOfWhatIsKeptAsSent(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true))
	a := newAPI(t)
	const revisions, classes = "/apis/apps/v1/namespaces/test/controllerrevisions", "/apis/resource.k8s.io/v1/deviceclasses"
	a.run(
		exchange{do: "POST " + revisions, body: `{"metadata":{"name":"r"},"revision":1,"data":{"b":1,"a":"<é>"}}`, code: 201},
		exchange{do: "POST " + classes, body: `{"metadata":{"name":"c"},"spec":{"config":[{"opaque":{"driver":"d.example.com","parameters":{"z":1,"a":{"y":1,"b":2}}}}]}}`, code: 201},
		exchange{do: "PATCH " + revisions + "/r", header: asMergePatch, body: `{"data":{"b":1,"a":"<é>"}}`, code: 422,
			says: says{"details.causes.0.field": "data"}},
		exchange{shows: "escapes that a merge writes, as kube-apiserver's does", do: "PATCH " + revisions + "/r", header: asMergePatch,
			body: `{"metadata":{"labels":{"a":"b"}}}`, code: 422, says: says{"details.causes.0.field": "data"}},
	)
	for _, body := range []string{`{"data":{"b":1,"a":"<é>"}}`, `{"data":{"b":1}}`, `{"data":{"c":1}}`, `{"data":null}`, `{"metadata":{"labels":{"c":"d"}}}`, `{"revision":2}`} {
		a.alike(t, "PATCH", revisions+"/r?dryRun=All&fieldManager=f", asMergePatch, body)
	}
	for _, body := range []string{`[{"op":"add","path":"/data/c","value":1}]`, `[{"op":"test","path":"/data/b","value":1}]`, `[{"op":"replace","path":"/data/b","value":1}]`,
		`[{"op":"replace","path":"/data","value":{"b":1,"a":"<é>"}}]`, `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`} {
		a.alike(t, "PATCH", revisions+"/r?dryRun=All&fieldManager=f", asJSONPatch, body)
		a.alike(t, "PATCH", classes+"/c?dryRun=All&fieldManager=f", asJSONPatch, strings.ReplaceAll(body, "/data", "/spec/config/0/opaque/parameters"))
	}
	for _, body := range []string{`{"spec":{"config":[{"opaque":{"driver":"d.example.com","parameters":{"z":1,"a":{"y":1,"b":2}}}}]}}`, `{"metadata":{"labels":{"c":"d"}}}`} {
		a.alike(t, "PATCH", classes+"/c?dryRun=All&fieldManager=f", asMergePatch, body)
	}
}
