package handlers_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Fallbacks of a fast path are counted while it is on. While it is off, it is not used at all.
func TestFallbacksOfRequests(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true))
	a := newAPI(t)
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"},"data":{"k":"v"}}`, code: 201},
		exchange{do: "POST /apis/apps/v1/namespaces/test/deployments", body: deployment, code: 201})
	patch := "PATCH " + configMaps + "/a?dryRun=All&fieldManager=other&fieldValidation="
	for _, c := range []struct {
		path  *fastpath.Path
		plain exchange // causes a fallback
		fast  exchange
	}{
		{fastpath.JSONDecode, exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"metadata":{"name":"b"},"nosuch":1}`, code: 201},
			exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"metadata":{"name":"b"}}`, code: 201}},
		{fastpath.BodyKind, exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"kind":"Secret","metadata":{"name":"b"}}`, code: 400},
			exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"kind":"ConfigMap","metadata":{"name":"b"}}`, code: 201}},
		{fastpath.MergePatch, exchange{do: patch + "Strict", header: asMergePatch, body: `{"nosuch":1}`, code: 422},
			exchange{do: patch + "Strict", header: asMergePatch, body: `{"data":{"k":"w"}}`, code: 200}},
		{fastpath.JSONPatch, exchange{do: patch + "Strict", header: asJSONPatch, body: `[{"op":"remove","path":"/nosuch"}]`, code: 422},
			exchange{do: patch + "Strict", header: asJSONPatch, body: `[{"op":"remove","path":"/data/k"}]`, code: 200}},
		{fastpath.ApplyJSON, exchange{do: patch + "Strict", header: asApply, body: "apiVersion: v1\nkind: ConfigMap", code: 200},
			exchange{do: patch + "Strict", header: asApply, body: `{"apiVersion":"v1","kind":"ConfigMap"}`, code: 200}},
		{fastpath.ManagedFields, exchange{do: patch + "Strict", header: asApply, body: `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"w"}}`, code: 409},
			exchange{do: patch + "Strict", header: asApply, body: `{"apiVersion":"v1","kind":"ConfigMap","data":{"n":"w"}}`, code: 200}},
	} {
		for _, on := range []bool{true, false} {
			count := func(e exchange) int64 {
				defer c.path.Turn(on)()
				before := c.path.Fallbacks()
				a.run(e)
				return c.path.Fallbacks() - before
			}
			if n := count(c.plain); (n > 0) != on {
				t.Errorf("%s, on: %t: %d fallbacks were counted", c.path.Name, on, n)
			}
			if n := count(c.fast); n != 0 {
				t.Errorf("%s, on: %t: %d fallbacks of what it covers", c.path.Name, on, n)
			}
		}
	}
}

// A compressed list has the same contents whether it consists of runs or not.
func TestRunsAreSwitched(t *testing.T) {
	a := newAPI(t)
	for i := range 60 {
		a.put(fmt.Sprint("c", i), strings.Repeat(fmt.Sprint("some text that compresses well ", i), 130))
	}
	list := func(on bool) []byte {
		defer fastpath.GzipRuns.Turn(on)()
		return a.ask("GET", configMaps, "application/json", "gzip", "").Body.Bytes()
	}
	runs, whole := list(true), list(false)
	if bytes.Equal(runs, whole) {
		t.Error("the stream is the same with runs and without")
	}
	if !bytes.Equal(unzip(t, runs), unzip(t, whole)) {
		t.Error("the lists differ")
	}
}
