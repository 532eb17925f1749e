package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/server"
)

// Requests are counted with kube-apiserver's labels, which dashboards and alerts use.
func TestRequestLabels(t *testing.T) {
	h := newServer(t, nil).Handler()
	send := func(method, path, media, body string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", media)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code >= 300 {
			t.Fatalf("%s %s: %s", method, path, w.Body)
		}
	}
	const maps, json = "/api/v1/namespaces/default/configmaps", "application/json"
	send("GET", maps, "", "")
	send("GET", "/api/v1/configmaps", "", "")
	send("POST", maps+"?dryRun=All", json, `{"metadata":{"name":"a"}}`)
	send("POST", maps, json, `{"metadata":{"name":"a"}}`)
	send("PUT", maps+"/a", json, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	send("PATCH", maps+"/a", "application/merge-patch+json", `{"data":{"k":"w"}}`)
	send("PATCH", maps+"/b?fieldManager=m", "application/apply-patch+yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}")
	send("DELETE", maps+"/a", "", "")
	send("DELETE", maps, "", "")
	send("GET", "/api/v1/namespaces/default/endpoints", "", "")
	send("GET", "/healthz", "", "")
	send("GET", "/api/v1/namespaces/default?watch=1", "", "")
	send("GET", "/api/v1/namespaces/default?watch=False", "", "")
	body := get(h, "/metrics", "master").Body.String()
	for _, c := range []struct{ code, dry, resource, scope, verb string }{
		{"200", "", "configmaps", "namespace", "LIST"}, {"200", "", "configmaps", "cluster", "LIST"},
		{"201", "All", "configmaps", "resource", "POST"}, {"201", "", "configmaps", "resource", "POST"},
		{"200", "", "configmaps", "resource", "PUT"}, {"200", "", "configmaps", "resource", "PATCH"},
		{"201", "", "configmaps", "resource", "APPLY"}, {"200", "", "configmaps", "resource", "DELETE"},
		{"200", "", "configmaps", "namespace", "DELETE"},
		{"200", "", "namespaces", "resource", "WATCH"}, {"200", "", "namespaces", "resource", "GET"},
	} {
		labels := `component="apiserver",dry_run="` + c.dry + `",group="",resource="` + c.resource + `",scope="` + c.scope + `",subresource="",verb="` + c.verb + `",version="v1"`
		wantLine(t, body, `apiserver_request_total{code="`+c.code+`",`+labels+`} 1`)
		wantLine(t, body, `apiserver_request_duration_seconds_count{`+labels+`} 1`)
		if c.dry == "" {
			wantLine(t, body, `apiserver_request_sli_duration_seconds_count{`+strings.Replace(labels, `dry_run="",`, "", 1)+`} 1`)
		}
	}
	wantLine(t, body, `apiserver_response_sizes_count{component="apiserver",group="",resource="namespaces",scope="resource",subresource="",verb="WATCH",version="v1"} 1`)
	wantLine(t, body, `apiserver_response_sizes_count{component="apiserver",group="",resource="configmaps",scope="cluster",subresource="",verb="LIST",version="v1"} 1`)
	wantLine(t, body, `apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/healthz",verb="GET",version=""} 1`)
	wantLine(t, body, `apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1`)
}

// Requests for paths that no handler of kube-apiserver takes are not counted: that is the path of a cluster-scoped resource below a namespace, or
// of a namespaced object without one. Rejected requests for other paths are.
func TestPathsWithoutHandlerAreNotCounted(t *testing.T) {
	h := newServer(t, nil).Handler()
	send := func(method, path, body string, code int) {
		t.Helper()
		r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", "application/json")
		if method == "PATCH" {
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
		if h.ServeHTTP(w, r); w.Code != code {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	define := func(plural, kind, scope string) {
		send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"%s.example.com"},"spec":{"group":"example.com","scope":%q,"names":{"plural":%q,"kind":%q},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}}}]}}`, plural, scope, plural, kind), 201)
	}
	define("widgets", "Widget", "Namespaced")
	define("gadgets", "Gadget", "Cluster")
	const custom = "/apis/example.com/v1"
	for _, path := range []string{custom + "/namespaces/default/gadgets", custom + "/namespaces/default/gadgets/x", custom + "/widgets/x", custom + "/widgets/x/status",
		custom + "/namespaces//widgets/x", custom + "/namespaces/default/widgets/x/none", "/api/v1/namespaces/default/nodes", "/api/v1/namespaces/default/nodes/x",
		"/api/v1/configmaps/x", "/api/v1/pods/x/log", "/apis/apps/v1/namespaces/default/deployments/x/scale/y", "/apis/authentication.k8s.io/v1/tokenreviews/x",
		"/api/v1/watch/namespaces/default/nodes"} {
		send("GET", path, "", 404)
	}
	send("POST", custom+"/widgets", "{}", 404)
	send("DELETE", custom+"/widgets", "", 404)
	send("PATCH", custom+"/widgets", "{}", 404)
	send("POST", "/api/v1/namespaces/default/nodes", "{}", 404)
	send("PATCH", custom+"/namespaces/default/widgets", "{}", 400)
	send("GET", custom+"/namespaces/default/widgets/x", "", 404)
	send("GET", "/api/v1/nodes/x", "", 404)
	send("GET", "/api/v1/namespaces//configmaps/x", "", 400)
	var counted []string
	for line := range strings.Lines(get(h, "/metrics", "master").Body.String()) {
		if strings.HasPrefix(line, `apiserver_request_total{code="4`) {
			counted = append(counted, strings.TrimSpace(line))
		}
	}
	series := func(code, group, resource, scope, verb string) string {
		return fmt.Sprintf(`apiserver_request_total{code=%q,component="apiserver",dry_run="",group=%q,resource=%q,scope=%q,subresource="",verb=%q,version="v1"} 1`, code, group, resource, scope, verb)
	}
	want := []string{series("400", "", "configmaps", "resource", "GET"), series("400", "example.com", "widgets", "namespace", "PATCH"),
		series("404", "", "nodes", "resource", "GET"), series("404", "example.com", "widgets", "resource", "GET")}
	if !slices.Equal(counted, want) {
		t.Errorf("counted are\n%s\nand not\n%s", strings.Join(counted, "\n"), strings.Join(want, "\n"))
	}
}

// Lists are counted, those of deletecollection included, with the objects read and returned.
func TestListsAreCounted(t *testing.T) {
	h := newServer(t, nil).Handler()
	for _, query := range []string{"", "?limit=3", "?fieldSelector=metadata.name%3Ddefault", "?labelSelector=kubernetes.io/metadata.name%3Ddefault"} {
		if w := get(h, "/api/v1/namespaces"+query, "known"); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
	body := get(h, "/metrics", "known").Body.String()
	const of = `resource="namespaces",storage="watchcache"} `
	wantLine(t, body, `apiserver_storage_list_total{group="",index="",`+of+"4")
	wantLine(t, body, `apiserver_storage_list_fetched_objects_total{group="",index="",`+of+"12")
	wantLine(t, body, `apiserver_storage_list_evaluated_objects_total{group="",`+of+"0")
	wantLine(t, body, `apiserver_storage_list_returned_objects_total{group="",`+of+"9")
}

// The server's internal requests are counted separately, too.
func TestOwnRequestsAreCounted(t *testing.T) {
	h := newServer(t, func(c *server.Config) {
		by := c.Authenticator
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			if r.Header.Get("Authorization") == "itself" {
				return &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}, true, nil
			}
			return by(r)
		}
	}).Handler()
	for _, by := range []string{"itself", "known"} {
		get(h, "/api/v1/namespaces/default", by)
		get(h, "/readyz", by)
	}
	body := get(h, "/metrics", "known").Body.String()
	wantLine(t, body, `apiserver_selfrequest_total{group="",resource="namespaces",subresource="",verb="GET"} 1`)
	wantLine(t, body, `apiserver_selfrequest_total{group="",resource="",subresource="/readyz",verb="GET"} 1`)
}

// Watches are counted at their end, with their duration, and their events by the sizes of the frames.
func TestWatchesAreCounted(t *testing.T) {
	h := newServer(t, nil).Handler()
	const path = "/api/v1/namespaces/default/configmaps"
	for i, size := range []int{0, 1500, 200 << 10} {
		r := httptest.NewRequest("POST", path, strings.NewReader(fmt.Sprintf(`{"metadata":{"name":"m%d"},"data":{"k":%q}}`, i, strings.Repeat("x", size))))
		r.Header.Set("Authorization", "known")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	events := get(h, path+"?watch=1&timeoutSeconds=1", "known").Body
	body := get(h, "/metrics", "known").Body.String()
	const of, labels = `group="",resource="configmaps",version="v1"`, `component="apiserver",group="",resource="configmaps",scope="namespace",subresource="",verb="WATCH",version="v1"`
	wantLine(t, body, "apiserver_watch_events_total{"+of+"} 3")
	for upTo, n := range map[string]int{"1024": 1, "2048": 2, "131072": 2, "+Inf": 3} {
		wantLine(t, body, fmt.Sprintf(`apiserver_watch_events_sizes_bucket{%s,le="%s"} %d`, of, upTo, n))
	}
	wantLine(t, body, fmt.Sprintf("apiserver_watch_events_sizes_sum{%s} %s", of, strconv.FormatFloat(float64(events.Len()), 'g', -1, 64)))
	wantLine(t, body, "apiserver_longrunning_requests{"+labels+"} 0")
	if strings.Contains(body, "apiserver_request_sli_duration_seconds_count{"+labels) {
		t.Error("a watch is measured by how long it was open")
	}
	labelled := strings.Replace(labels, ",", `,dry_run="",`, 1)
	wantLine(t, body, "apiserver_request_duration_seconds_count{"+labelled+"} 1")
	wantLine(t, body, "apiserver_request_duration_seconds_bucket{"+labelled+`,le="0.8"} 0`)
	wantLine(t, body, "apiserver_request_total{code=\"200\","+labelled+"} 1")
}

// Of events in protobuf, the size is that of the message, without the length before it. The scope of a watch for one name is one object, in all
// namespaces, too.
func TestProtobufWatchesAreCounted(t *testing.T) {
	h := newServer(t, nil).Handler()
	r := httptest.NewRequest("GET", "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone", nil)
	r.Header.Set("Authorization", "known")
	r.Header.Set("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body := get(h, "/metrics", "known").Body.String()
	wantLine(t, body, `apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 1`)
	wantLine(t, body, fmt.Sprintf(`apiserver_watch_events_sizes_sum{group="",resource="configmaps",version="v1"} %d`, w.Body.Len()-4))
	wantLine(t, body, `apiserver_watch_list_duration_seconds_count{group="",resource="configmaps",scope="resource",version="v1"} 1`)
}

// The number of objects of each type is reported once, also for Events, which two groups serve.
func TestStoredObjectsAreCounted(t *testing.T) {
	body := get(newServer(t, nil).Handler(), "/metrics", "known").Body.String()
	wantLine(t, body, `apiserver_resource_objects{group="",resource="namespaces"} 4`)
	wantLine(t, body, `apiserver_resource_objects{group="",resource="events"} 0`)
	wantLine(t, body, `apiserver_resource_size_estimate_bytes{group="",resource="events"} 0`)
	for _, series := range []string{"kubernetes_build_info{", "workqueue_adds_total{"} {
		if !strings.Contains(body, "\n"+series) {
			t.Errorf("there is no %s", series)
		}
	}
}

// The time of webhooks and queues is excluded from the SLI duration, with and without an audit.
func TestPromisedTimeIsTheServersOwn(t *testing.T) {
	h := newServer(t, func(c *server.Config) {
		by := c.Authenticator
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			if r.Method == http.MethodDelete {
				all, _ := genericapirequest.LatencyTrackersFrom(r.Context())
				all.MutatingWebhookTracker.TrackDuration(time.Hour)
				all.ValidatingWebhookTracker.TrackDuration(time.Hour)
				all.APFQueueWaitTracker.TrackDuration(time.Hour)
			}
			return by(r)
		}
	}).Handler()
	r := httptest.NewRequest("DELETE", "/api/v1/namespaces/default/configmaps", nil)
	r.Header.Set("Authorization", "known")
	h.ServeHTTP(httptest.NewRecorder(), r)
	const of = `verb="DELETE",version="v1"} `
	for line := range strings.Lines(get(h, "/metrics", "known").Body.String()) {
		name, labels, _ := strings.Cut(line, "{")
		_, value, found := strings.Cut(labels, of)
		if !found {
			continue
		}
		switch sum, _ := strconv.ParseFloat(strings.TrimSpace(value), 64); {
		case name == "apiserver_request_sli_duration_seconds_sum" && (sum < -3*3600 || sum > -3*3600+60):
			t.Errorf("the time of others counts: %s", line)
		case name == "apiserver_request_duration_seconds_sum" && (sum < 0 || sum > 60):
			t.Errorf("the time of others does not count: %s", line)
		}
	}
}

// Request bodies, the lists of watches, and Go's runtime are measured under kube-apiserver's names.
func TestBodiesAndWatchLists(t *testing.T) {
	h := newServer(t, nil).Handler()
	send := func(method, path, body string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "master")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code >= 300 {
			t.Fatalf("%s %s: %s", method, path, w.Body)
		}
	}
	const maps, list = "/api/v1/namespaces/default/configmaps", "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
	const body = `{"metadata":{"name":"a"}}`
	send("POST", maps, body)
	send("GET", maps, "")
	send("GET", maps+list, "")
	send("GET", maps+"?watch=1&timeoutSeconds=1", "")
	send("DELETE", maps, "{}")
	got := get(h, "/metrics", "master").Body.String()
	wantLine(t, got, `apiserver_request_body_size_bytes_sum{group="",resource="configmaps",verb="delete_collection"} 2`)
	wantLine(t, got, `apiserver_watch_list_duration_seconds_count{group="",resource="configmaps",scope="namespace",version="v1"} 1`)
	wantLine(t, got, `apiserver_request_body_size_bytes_count{group="",resource="configmaps",verb="create"} 1`)
	wantLine(t, got, fmt.Sprintf(`apiserver_request_body_size_bytes_sum{group="",resource="configmaps",verb="create"} %d`, len(body)))
	if !strings.Contains(got, "\ngo_gc_heap_live_bytes ") {
		t.Error("there is nothing of Go's runtime")
	}
}

func wantLine(t *testing.T, body, line string) {
	t.Helper()
	if !strings.Contains(body, "\n"+line+"\n") {
		t.Errorf("there is no %s", line)
	}
}
