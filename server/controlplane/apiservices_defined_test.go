package controlplane_test

import (
	"strings"
	"testing"
)

const ofAPIServices = "apiservices.apiregistration.k8s.io"

// turned returns after the chore has certainly examined all APIServices once more: it removes the APIService of an unserved version.
func (k kept) turned() {
	k.Helper()
	k.send("POST", apiServicesPath, `{"metadata":{"name":"v9.example.com","labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}},
		"spec":{"group":"example.com","version":"v9","groupPriorityMinimum":1,"versionPriority":1}}`)
	k.until("removed", ofAPIServices, apiServicesPath+"/v9.example.com", field("code", "404"))
}

// The server repairs the APIService of a defined version, unless a user has removed the label.
func TestAPIServicesOfDefinitionsArePutRight(t *testing.T) {
	k := newKept(t, nil)
	k.send("POST", definitions, widgetDefinition)
	k.send("PATCH", widgetService, `{"spec":{"groupPriorityMinimum":5,"versionPriority":6}}`)
	k.until("put right", ofAPIServices, widgetService, field("spec.groupPriorityMinimum", "1000"))
	k.until("put right", ofAPIServices, widgetService, field("spec.versionPriority", "100"))
	k.send("PATCH", widgetService, `{"metadata":{"labels":{"own":"yes"}}}`)
	k.turned()
	if answer := k.send("GET", widgetService, ""); !field("metadata.labels.own", "yes")(answer) {
		t.Errorf("a label of a user's is gone: %s", answer)
	}
	for _, label := range []string{`"onstart"`, "null"} {
		k.send("PATCH", widgetService, `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":`+label+`}},"spec":{"groupPriorityMinimum":5}}`)
		k.turned()
		if answer := k.send("GET", widgetService, ""); !field("spec.groupPriorityMinimum", "5")(answer) {
			t.Errorf("with the label %s it is put right: %s", label, answer)
		}
	}
}

// A version has an APIService as long as a definition claims it, even if that definition is not served.
func TestAPIServicesOfDefinitionsThatAreNotServed(t *testing.T) {
	k := newKept(t, nil)
	k.send("POST", definitions, widgetDefinition)
	conflicting := strings.NewReplacer("widgets", "gadgets", `"v1"`, `"v2"`).Replace(widgetDefinition)
	if answer := k.send("POST", definitions, conflicting); !field(`status.conditions.#(type=="Established").status`, "False")(answer) {
		t.Fatal(answer)
	}
	const service = apiServicesPath + "/v2.example.com"
	first := k.send("GET", service, "")
	k.turned()
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer := k.send("GET", service, ""); answer != first {
		t.Errorf("it was %s, and is %s", first, answer)
	}
	k.send("DELETE", service, "")
	k.back(ofAPIServices, service, first)
	// Another definition that claims the version is created and deleted.
	third := strings.NewReplacer("gadgets", "sprockets").Replace(conflicting)
	k.send("POST", definitions, third)
	k.send("DELETE", definitions+"/sprockets.example.com", "")
	k.until("gone", "customresourcedefinitions.apiextensions.k8s.io", definitions+"/sprockets.example.com", field("code", "404"))
	k.turned()
	k.send("GET", service, "")
	k.send("DELETE", definitions+"/gadgets.example.com", "")
	k.until("gone", ofAPIServices, service, field("code", "404"))
	k.send("GET", widgetService, "")
}
