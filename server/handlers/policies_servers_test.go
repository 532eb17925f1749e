package handlers_test

import (
	"net/http"
	"testing"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// A policy acknowledged by one server applies there to the very next request, and on others as soon as their reads include it: after a most recent
// read, or when the change arrives by itself. The time of the latter is logged.
func TestPoliciesOnServers(t *testing.T) {
	servertest.OnServers(t, 2, func(t *testing.T, stores []*sqlstore.Store) {
		var servers []*api
		for _, store := range stores {
			servers = append(servers, newServer(t, utilfeature.DefaultMutableFeatureGate.DeepCopy(), store))
		}
		goBy := func(a *api, refuses bool, when string) {
			t.Helper()
			code, _ := a.request("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", `{"metadata":{"name":"a"}}`, nil)
			if want := map[bool]int{true: http.StatusForbidden, false: http.StatusCreated}[refuses]; code != want {
				t.Fatalf("%s the answer was %d", when, code)
			}
		}
		never := policy("never", "", "configmaps", `"validations":[{"expression":"false","reason":"Forbidden"}]`)
		bound := binding("all", "never", `,"validationActions":["Deny"]`)
		servers[0].run(exchange{do: "POST " + validatingPolicies, code: 201, body: never})
		var longest time.Duration
		for round := range 20 {
			here, there := servers[round%2], servers[(round+1)%2]
			here.run(exchange{do: "POST " + validatingBindings, code: 201, body: bound})
			goBy(here, true, "with the binding made here")
			there.run(exchange{do: "GET " + validatingBindings + "/all", code: 200})
			goBy(there, true, "with the binding read there")

			there.run(exchange{do: "DELETE " + validatingPolicies + "/never", code: 200})
			goBy(there, false, "with the policy deleted there")
			here.run(exchange{do: "GET " + validatingPolicies + "/never", code: 404})
			goBy(here, false, "with the policy not found here")

			arrived := there.awaitChange("validatingadmissionpolicies.admissionregistration.k8s.io")
			here.run(exchange{do: "POST " + validatingPolicies, code: 201, body: never})
			began := time.Now()
			goBy(here, true, "with the policy made here again")
			arrived()
			longest = max(longest, time.Since(began))
			goBy(there, true, "with the policy told of there")

			there.run(exchange{do: "DELETE " + validatingBindings + "/all", code: 200})
			goBy(there, false, "with the binding deleted there")
			here.run(exchange{do: "GET " + validatingBindings + "/all", code: 404})
			goBy(here, false, "with the binding not found here")
		}
		t.Logf("in force on the other server after %v at most, without being asked", longest)
	})
}

// awaitChange returns a function that waits until the next change of a resource arrives at the server by itself.
func (a *api) awaitChange(resource string) (arrived func()) {
	a.Helper()
	now, err := a.store.Snapshot(a.Context(), resource, resources.At{Match: resources.MostRecent})
	if err != nil {
		a.Fatal(err)
	}
	w, err := a.store.Watch(a.Context(), resources.WatchOptions{Resource: resource, After: now.Revision()})
	if err != nil {
		a.Fatal(err)
	}
	return func() {
		a.Helper()
		defer w.Close()
		select {
		case <-w.Ready():
		case <-time.After(patience):
			a.Fatalf("a change of %s did not come", resource)
		}
	}
}
