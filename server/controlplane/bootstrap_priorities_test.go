package controlplane_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
)

const flowSchemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"

// A new server has kube-apiserver's configuration of priority and fairness, and the system PriorityClasses. A later
// start reverts changes, unless a user has taken an object over, and otherwise writes nothing.
func TestBootstrapPriorities(t *testing.T) {
	k := newWhole(t, nil)
	s, store := k.s, k.store
	for path, want := range map[string]string{
		flowSchemas: "catch-all exempt global-default kube-controller-manager kube-scheduler kube-system-service-accounts probes " +
			"service-accounts system-leader-election system-node-high system-nodes",
		"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations": "catch-all exempt global-default leader-election node-high " +
			"system workload-high workload-low",
		"/apis/scheduling.k8s.io/v1/priorityclasses": "system-cluster-critical system-node-critical",
	} {
		var names []string
		body := get(s.Handler(), path, "known").Body.String()
		for _, name := range gjson.Get(body, "items.#.metadata.name").Array() {
			names = append(names, name.Str)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has %s\nwant %s", path, got, want)
		}
		for _, dangling := range gjson.Get(body, `items.#.status.conditions.#(type=="Dangling").status`).Array() {
			if dangling.Str != "False" {
				t.Errorf("%s: dangling is %s", path, dangling)
			}
		}
	}
	for name, changes := range map[string]string{"probes": `{"spec":{"matchingPrecedence":3}}`,
		"service-accounts": `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}},"spec":{"matchingPrecedence":3}}`} {
		r := httptest.NewRequest("PATCH", flowSchemas+"/"+name, strings.NewReader(changes))
		r.Header.Set("Authorization", "known")
		r.Header.Set("Content-Type", "application/merge-patch+json")
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
	boot := func() int64 {
		t.Helper()
		if err := k.p.Bootstrap(t.Context()); err != nil {
			t.Fatal(err)
		}
		snapshot, err := store.Snapshot(t.Context(), "namespaces", resources.At{Match: resources.MostRecent})
		if err != nil {
			t.Fatal(err)
		}
		return snapshot.Revision()
	}
	before := boot()
	if after := boot(); after != before {
		t.Errorf("a start with nothing to do has written: %d, then %d", before, after)
	}
	for name, want := range map[string]int64{"probes": 2, "service-accounts": 3} {
		if got := gjson.Get(get(s.Handler(), flowSchemas+"/"+name, "known").Body.String(), "spec.matchingPrecedence").Int(); got != want {
			t.Errorf("%s has precedence %d, want %d", name, got, want)
		}
	}
}
