package handlers_test

import "testing"

// A deletion with failing preconditions gets kube-apiserver's error, which differs between types.
func TestPreconditionsOfTermination(t *testing.T) {
	a := newAPI(t)
	version := says{"uid": "metadata.uid", "version": "metadata.resourceVersion"}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201})
	for _, of := range []struct{ path, named, failed string }{
		{definitions + "/widgets.example.com", `customresourcedefinitions.apiextensions.k8s.io "widgets.example.com"`, "precondition failed"},
		{"/api/v1/namespaces/test", `namespaces "test"`, "Precondition failed"},
	} {
		refused := func(shows, precondition, why string) {
			t.Helper()
			a.run(exchange{shows: shows, do: "DELETE " + of.path, body: `{"preconditions":` + precondition + `}`, code: 409,
				says: says{"reason": "Conflict", "message": "Operation cannot be fulfilled on " + of.named + ": " + of.failed + ": " + why}})
		}
		for _, shows := range []string{"living", "terminating"} {
			a.run(exchange{do: "GET " + of.path, code: 200, keep: version})
			refused(shows, `{"uid":"other"}`, "UID in precondition: other, UID in object meta: {uid}")
			refused(shows, `{"uid":"{uid}","resourceVersion":"1"}`, "ResourceVersion in precondition: 1, ResourceVersion in object meta: {version}")
			a.run(exchange{shows: shows, do: "DELETE " + of.path, body: `{"preconditions":{"uid":"{uid}","resourceVersion":"{version}"}}`, code: 200})
		}
	}
}

// The deletion of a collection of definitions checks preconditions by the general rules, and removes the objects of each definition first.
func TestDeletionOfManyDefinitions(t *testing.T) {
	a := newAPI(t)
	refused := func(precondition, why string) exchange {
		return exchange{do: "DELETE " + definitions, body: `{"preconditions":` + precondition + `}`, code: 409, says: says{
			"message": `Operation cannot be fulfilled on CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com": ` + why}}
	}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201,
		keep: says{"uid": "metadata.uid", "version": "metadata.resourceVersion"}},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201},
		refused(`{"uid":"other"}`, "the UID in the precondition (other) does not match the UID in record ({uid}). The object might have been deleted and then recreated"),
		refused(`{"resourceVersion":"1"}`, "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"),
		exchange{do: "DELETE " + definitions, body: `{"preconditions":{"uid":"{uid}","resourceVersion":"{version}"}}`, code: 200},
		exchange{do: "GET " + definitions + "/widgets.example.com", code: 200, says: says{"metadata.finalizers": `["customresourcecleanup.apiextensions.k8s.io"]`}},
		exchange{do: "GET " + widgets + "/a", code: 200},
		exchange{do: "DELETE " + definitions, code: 200})
}
