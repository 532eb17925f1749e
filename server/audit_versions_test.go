package server_test

import (
	"testing"

	"github.com/tidwall/gjson"
)

// The audit has the object of a request in the version of the body, which is not always that of the subresource's kind.
func TestAuditOfOlderVersions(t *testing.T) {
	s, kept := audited(t, "- level: Request\n  omitStages: [RequestReceived]\n  resources: [{group: '', resources: [pods/eviction]}]\n- level: None", nil)
	for _, version := range []string{"v1beta1", "v1"} {
		ask(s.Handler(), "POST", "/api/v1/namespaces/default/pods/a/eviction", `{"apiVersion":"policy/`+version+`","kind":"Eviction","metadata":{"name":"a","namespace":"default"}}`)
		e := expectEvents(t, kept, "Request ResponseComplete create 404 sent")
		if len(e) != 1 {
			t.Fatal(e)
		}
		if got := gjson.GetBytes(e[0].RequestObject.Raw, "apiVersion").Str; got != "policy/"+version {
			t.Errorf("%s is recorded as %s", version, e[0].RequestObject.Raw)
		}
	}
}
