package aggregate_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/tidwall/gjson"
)

// An APIService without a Service is in the older documents of groups at once, whether or not a server serves its version, and in
// no other document: its resources are not known.
func TestLocalAPIServices(t *testing.T) {
	f := newFixture(t)
	create := func(group, version string, groupPriority, versionPriority int) {
		f.must("POST", apiServices, fmt.Sprintf(`{"metadata":{"name":"%[2]s.%[1]s"},"spec":{"group":%[1]q,"version":%[2]q,"groupPriorityMinimum":%[3]d,"versionPriority":%[4]d}}`,
			group, version, groupPriority, versionPriority))
	}
	create("plums.example.com", "v1", 100, 10)
	create("plums.example.com", "v2", 19000, 20)
	create("apps", "v9", 1, 1)
	for plural, version := range map[string]string{"pears": "v1", "quinces": "v2"} { // one of them does not get its kind, so it is not established
		f.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"metadata":{"name":"%[1]s.pears.example.com"},"spec":{"group":"pears.example.com",
			"scope":"Namespaced","names":{"plural":%[1]q,"kind":"Pear"},"versions":[{"name":%[2]q,"served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
			plural, version))
	}
	const plums = `{"name":"plums.example.com","versions":[{"groupVersion":"plums.example.com/v2","version":"v2"},{"groupVersion":"plums.example.com/v1","version":"v1"}],` +
		`"preferredVersion":{"groupVersion":"plums.example.com/v2","version":"v2"}}`
	groups := gjson.Get(f.must("GET", "/apis", ""), "groups")
	for path, want := range map[string]string{
		`#(name="plums.example.com")`:       plums,
		"0.name":                            "apiregistration.k8s.io",
		"1.name":                            "plums.example.com",
		`#(name="apps").versions.#.version`: `["v1","v9"]`,
		`#(name="pears.example.com").versions.#.version`:          `["v2","v1"]`,
		`#(name="apiextensions.k8s.io").preferredVersion.version`: "v1",
	} {
		if got := groups.Get(path).String(); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := f.must("GET", "/apis/plums.example.com", ""); got != `{"kind":"APIGroup","apiVersion":"v1",`+plums[1:]+"\n" {
		t.Error(got)
	}
	for _, path := range []string{"/apis/plums.example.com/v1", "/apis/apps/v9"} {
		if code, answer := f.send("GET", path, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	if found := gjson.Get(f.must("GET", "/apis", "", "Accept", aggregated), `items.#(metadata.name="plums.example.com")`); found.Exists() {
		t.Error(found)
	}
	f.must("DELETE", apiServices+"/v2.plums.example.com", "")
	if got := gjson.Get(f.must("GET", "/apis/plums.example.com", ""), "versions.#.version").Raw; got != `["v1"]` {
		t.Error(got)
	}
	f.must("DELETE", apiServices+"/v1.plums.example.com", "")
	if code, _ := f.send("GET", "/apis/plums.example.com", ""); code != http.StatusNotFound {
		t.Errorf("after the last: %d", code)
	}
}

// The older documents of groups are sorted by the priorities of APIServices, also for versions of this server; aggregated discovery is not.
func TestPrioritiesOfLocalAPIServices(t *testing.T) {
	f := newFixture(t)
	const patch = "application/merge-patch+json"
	groups := func() gjson.Result { return gjson.Get(f.must("GET", "/apis", ""), "groups.#.name") }
	before, ordered := groups(), gjson.Get(f.must("GET", "/apis", "", "Accept", aggregated), "items.#.metadata.name").Raw
	f.must("PATCH", apiServices+"/v1.autoscaling", `{"spec":{"versionPriority":99}}`, "Content-Type", patch)
	if got := gjson.Get(f.must("GET", "/apis/autoscaling", ""), "preferredVersion.version").Str; got != "v1" {
		t.Errorf("preferred of autoscaling: %s", got)
	}
	if after := groups(); after.Raw != before.Raw {
		t.Errorf("the group has moved: %s", after)
	}
	f.must("PATCH", apiServices+"/v1.batch", `{"spec":{"groupPriorityMinimum":19500}}`, "Content-Type", patch)
	if got := groups().Get("1").Str; got != "batch" {
		t.Errorf("batch is not second: %s", groups())
	}
	// The highest priority of the versions counts for a group, so lowering one has an effect only if it is the only one.
	f.must("PATCH", apiServices+"/v1.autoscaling", `{"spec":{"groupPriorityMinimum":1}}`, "Content-Type", patch)
	f.must("PATCH", apiServices+"/v1.batch", `{"spec":{"groupPriorityMinimum":1}}`, "Content-Type", patch)
	if now := groups().Array(); now[len(now)-1].Str != "batch" {
		t.Errorf("batch is not last: %s", groups())
	}
	if now := gjson.Get(f.must("GET", "/apis", "", "Accept", aggregated), "items.#.metadata.name").Raw; now != ordered {
		t.Errorf("aggregated discovery has moved:\n%s\n%s", now, ordered)
	}
	f.must("PATCH", apiServices+"/v1.batch", `{"spec":{"groupPriorityMinimum":17400}}`, "Content-Type", patch)
	if after := groups(); after.Raw != before.Raw {
		t.Errorf("back again: %s, was %s", after, before)
	}
}

// A definition does not change the priorities of an APIService that existed before.
func TestPrioritiesOfDefinedVersions(t *testing.T) {
	f := newFixture(t)
	f.must("POST", apiServices, `{"metadata":{"name":"v1.clash.io"},"spec":{"group":"clash.io","version":"v1","groupPriorityMinimum":5,"versionPriority":5}}`)
	f.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"clashes.clash.io"},"spec":{"group":"clash.io",
		"scope":"Namespaced","names":{"plural":"clashes","kind":"Clash"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	groups := gjson.Get(f.must("GET", "/apis", ""), "groups.#.name").Array()
	if last := groups[len(groups)-1].Str; last != "clash.io" {
		t.Errorf("the last is %s", last)
	}
	f.must("GET", "/apis/clash.io/v1/clashes", "")
}

// An APIService with a Service is in the older documents of groups at once, before its server has said what it serves.
func TestGroupsOfOtherServersAtOnce(t *testing.T) {
	f := newFixture(t)
	f.stopControllers() // nobody asks the server
	f.register()
	if got := gjson.Get(f.must("GET", "/apis/apples.example.com", ""), "versions.#.groupVersion").Raw; got != `["apples.example.com/v1"]` {
		t.Error(got)
	}
	f.must("POST", apiServices, `{"metadata":{"name":"v2.apples.example.com"},"spec":{"group":"apples.example.com","version":"v2","groupPriorityMinimum":19000,
		"versionPriority":20,"service":{"namespace":"default","name":"ext"}}}`)
	groups := gjson.Get(f.must("GET", "/apis", ""), "groups")
	if got := groups.Get("1.versions.#.version").Raw; groups.Get("1.name").Str != "apples.example.com" || got != `["v2","v1"]` {
		t.Errorf("the second group is %s", groups.Get("1"))
	}
	f.must("DELETE", apiServices+"/v2.apples.example.com", "")
	f.must("DELETE", apiServices+"/v1.apples.example.com", "")
	if code, _ := f.send("GET", "/apis/apples.example.com", ""); code != http.StatusNotFound {
		t.Error(code)
	}
}

// Requests of a version go to the server behind its APIService, also when a definition of that version is created after it.
func TestDefinitionBehindAPIService(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	f.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"plums.apples.example.com"},"spec":{"group":"apples.example.com",
		"scope":"Namespaced","names":{"plural":"plums","kind":"Plum"},"versions":[
			{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},
			{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	const plums = "/namespaces/default/plums"
	if answer := f.must("GET", apples+plums, ""); gjson.Get(answer, "uri").Str != apples+plums {
		t.Errorf("v1 is answered here: %s", answer)
	}
	const here = "/apis/apples.example.com/v2" + plums
	if answer := f.must("GET", here, ""); gjson.Get(answer, "kind").Str != "PlumList" {
		t.Errorf("v2 is not answered here: %s", answer)
	}
	if got := gjson.Get(f.must("GET", "/apis/apples.example.com", ""), "versions.#.version").Raw; got != `["v2","v1"]` {
		t.Errorf("the versions are %s", got)
	}
	service := gjson.Get(f.must("GET", apiServices+"/v1.apples.example.com", ""), "spec.service.name").Str
	f.must("DELETE", apiServices+"/v1.apples.example.com", "")
	if answer := f.must("GET", apples+plums, ""); service != "ext" || gjson.Get(answer, "kind").Str != "PlumList" {
		t.Errorf("without the APIService of %q v1 is answered by another server: %s", service, answer)
	}
}
