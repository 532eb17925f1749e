package controlplane_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

const apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"

// There is an APIService for each served version, except those of the APIServices' own group. The next start, and no
// earlier event, repairs those that the server created; it leaves those of users alone.
func TestAPIServicesAtAStart(t *testing.T) {
	k := newKept(t, nil)
	registry := k.p.Registry
	boot := func() {
		t.Helper()
		if err := k.p.Bootstrap(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	revision := func() int64 {
		t.Helper()
		now, err := k.store.Snapshot(t.Context(), "namespaces", resources.At{Match: resources.MostRecent})
		if err != nil {
			t.Fatal(err)
		}
		return now.Revision()
	}
	k.until("what the server writes beside it", "leases.coordination.k8s.io", leasesPath, func(list string) bool { return strings.Contains(list, `"apiserver-`) })
	before := revision()
	if boot(); revision() != before {
		t.Error("a start with nothing to do has written")
	}
	served := map[string]bool{}
	for _, g := range registry.Catalog().Groups() {
		for _, v := range g.Versions {
			served[v.Version+"."+g.Name] = g.Name != "apiregistration.k8s.io"
		}
	}
	for _, a := range gjson.Get(k.send("GET", apiServicesPath, ""), "items").Array() {
		name := a.Get("metadata.name").Str
		if !served[name] || a.Get(`status.conditions.#(type=="Available").reason`).Str != "Local" {
			t.Errorf("%s", a)
		}
		served[name] = false
	}
	for name, missing := range served {
		if missing {
			t.Errorf("there is no APIService %s", name)
		}
	}

	k.send("DELETE", apiServicesPath+"/v1.apps", "")
	k.send("PATCH", apiServicesPath+"/v1.batch", `{"spec":{"versionPriority":3}}`)
	k.send("PATCH", apiServicesPath+"/v1.policy", `{"metadata":{"labels":null},"spec":{"versionPriority":3}}`)
	for name, label := range map[string]string{"v1.example.com": "onstart", "v2.example.com": "true", "v3.example.com": "x"} {
		k.send("POST", apiServicesPath, `{"metadata":{"name":"`+name+`","labels":{"kube-aggregator.kubernetes.io/automanaged":"`+label+`"}},
			"spec":{"group":"example.com","version":"`+name[:2]+`","groupPriorityMinimum":1,"versionPriority":1}}`)
	}
	// No server serves this version, so its APIService is removed at once; by then the server has seen the others.
	k.until("removed", "apiservices.apiregistration.k8s.io", apiServicesPath+"/v2.example.com", field("code", "404"))
	check := func(apps, batch, policy, example string) {
		t.Helper()
		for name, want := range map[string]string{"v1.apps": apps, "v1.batch": batch, "v1.policy": policy, "v1.example.com": example, "v3.example.com": "1"} {
			if got := get(k.s.Handler(), apiServicesPath+"/"+name, "known").Body.String(); !field("spec.versionPriority", want)(got) {
				t.Errorf("%s is to have priority %q: %s", name, want, got)
			}
		}
	}
	check("", "3", "3", "1")
	boot()
	check("15", "15", "3", "")

	// A server that serves more versions creates more APIServices, and the next one, which serves fewer, removes them.
	config, err := builtin.ParseRuntimeConfig(map[string]string{"coordination.k8s.io/v1beta1": "true"})
	if err != nil {
		t.Fatal(err)
	}
	registry.SetGroups(builtin.Parts{APIs: config}.Groups())
	boot()
	k.send("GET", apiServicesPath+"/v1beta1.coordination.k8s.io", "")
	registry.SetGroups(builtin.Groups())
	boot()
	if w := get(k.s.Handler(), apiServicesPath+"/v1beta1.coordination.k8s.io", "known"); w.Code != 404 {
		t.Errorf("the APIService of a version that is no longer served: %s", w.Body)
	}
}

// An APIService without a Service is available, whatever a client writes into its status.
func TestAPIServicesAreAvailable(t *testing.T) {
	k := newKept(t, nil)
	reason := func(want string) func(string) bool {
		return field(`status.conditions.#(type=="Available").reason`, want)
	}
	const path = apiServicesPath + "/v1.example.com"
	k.send("POST", apiServicesPath, `{"metadata":{"name":"v1.example.com"},"spec":{"group":"example.com","version":"v1","groupPriorityMinimum":1,
		"versionPriority":1,"service":{"namespace":"default","name":"x"}, "insecureSkipTLSVerify":true}}`)
	if answer := k.send("GET", path, ""); !reason("")(answer) {
		t.Error(answer)
	}
	k.send("PATCH", path, `{"spec":{"service":null,"insecureSkipTLSVerify":false}}`)
	k.until("available", "apiservices.apiregistration.k8s.io", path, reason("Local"))
	k.send("PATCH", path+"/status", `{"status":{"conditions":[{"type":"Available","status":"False","reason":"No"},{"type":"Other","status":"True"}]}}`)
	answer := k.until("available again", "apiservices.apiregistration.k8s.io", path, reason("Local"))
	if !field("status.conditions.#", "2")(answer) {
		t.Error(answer)
	}
}

// The served versions may change while a server runs: an APIService with the label is removed with its version.
func TestAPIServicesFollowWhatIsServed(t *testing.T) {
	k := newKept(t, nil)
	group := resources.GroupSpec{Name: "example.com", Priority: 1000, Versions: []resources.VersionSpec{{Version: "v1", Priority: 100}, {Version: "v2", Priority: 100}}}
	k.p.Registry.SetGroup(group)
	for _, version := range []string{"v1", "v2"} { // created by the chore for defined versions
		k.until("made", "apiservices.apiregistration.k8s.io", apiServicesPath+"/"+version+".example.com", field("spec.version", version))
	}
	k.send("POST", apiServicesPath, `{"metadata":{"name":"v3.example.com","labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}},
		"spec":{"group":"example.com","version":"v3","groupPriorityMinimum":1000,"versionPriority":15}}`)
	gone := func(version string) {
		t.Helper()
		k.until("removed", "apiservices.apiregistration.k8s.io", apiServicesPath+"/"+version+".example.com", field("code", "404"))
	}
	gone("v3") // it was never served
	group.Versions = group.Versions[1:]
	k.p.Registry.SetGroup(group)
	gone("v1")
	const toService = `{"spec":{"service":{"namespace":"default","name":"x"},"insecureSkipTLSVerify":true}}`
	k.send("PATCH", apiServicesPath+"/v2.example.com", toService)
	k.until("local again", "apiservices.apiregistration.k8s.io", apiServicesPath+"/v2.example.com", field("spec.service", ""))
	k.send("PATCH", apiServicesPath+"/v2.example.com", `{"metadata":{"labels":null}}`)
	k.send("PATCH", apiServicesPath+"/v2.example.com", toService)
	k.send("POST", apiServicesPath, `{"metadata":{"name":"v4.example.com","labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}},
		"spec":{"group":"example.com","version":"v4","groupPriorityMinimum":1000,"versionPriority":15}}`)
	gone("v4") // in a turn that has left a user's APIService alone
	if answer := k.send("GET", apiServicesPath+"/v2.example.com", ""); !field("spec.service.name", "x")(answer) {
		t.Error(answer)
	}
	k.send("PATCH", apiServicesPath+"/v2.example.com", `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}}}`)
	k.p.Registry.RemoveGroup("example.com")
	gone("v2")
}
