package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"k8s.io/client-go/kubernetes"
)

// The log may have custom resources whose definitions have changed since, or are gone: the store is valid nevertheless.
func TestVerifyPastDefinitions(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := empty(t)
		p := start(t, place.args()...)
		client := p.client(t)
		define := func(kind, versions string) {
			send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
				"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"`+kind+`"},"versions":`+versions+`}}`)
		}
		whole := func(when string) {
			t.Helper()
			if code, stdout, stderr := command(t, append([]string{"verify"}, place.args()...)...); code != 0 {
				t.Errorf("%s: %s%s", when, stdout, stderr)
			}
		}
		define("Widget", widgetVersions("v1"))
		send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`)
		send(t, client, "PATCH", crds+"/widgets.example.com", `{"spec":{"versions":`+widgetVersions("v2")+`}}`)
		send(t, client, "PATCH", widgets+"/w", `{"spec":{"n":2}}`)
		send(t, client, "PATCH", crds+"/widgets.example.com/status", `{"status":{"storedVersions":["v2"]}}`)
		second := gjson.Get(widgetVersions("v2"), "1").Raw
		send(t, client, "PATCH", crds+"/widgets.example.com", `{"spec":{"versions":[`+second+`]}}`)
		whole("without the version of before")
		send(t, client, "DELETE", crds+"/widgets.example.com", "")
		until(t, "the definition is gone", func() bool { return notFound(t, client, crds+"/widgets.example.com") })
		whole("without the definition")
		define("Wodget", `[`+second+`]`)
		send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Wodget","metadata":{"name":"w"}}`)
		whole("with a definition of another kind")
		if out := runs(t, append([]string{"sql", "SELECT count(*) FROM all_changes WHERE resource = 'widgets.example.com'"}, place.args()...)...); !strings.Contains(out, "4") {
			t.Errorf("of the widgets the log has %s", out)
		}
	})
}

func notFound(t *testing.T, client kubernetes.Interface, path string) bool {
	t.Helper()
	var status int
	client.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).StatusCode(&status)
	return status == http.StatusNotFound
}
