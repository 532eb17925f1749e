package controlplane_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
)

const priorityLevels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"

// flowOf returns the names of the FlowSchema and the priority level that a request is assigned to.
func (k kept) flowOf(method, path, name string, groups ...string) string {
	k.Helper()
	r := httptest.NewRequest(method, path, http.NoBody)
	r.Header.Set("Authorization", name)
	r.Header["Groups"] = groups
	w := httptest.NewRecorder()
	k.s.Handler().ServeHTTP(w, r)
	named := func(list, header string) string {
		uid := w.Header().Get(header)
		return gjson.Get(k.send("GET", list, ""), `items.#(metadata.uid=="`+uid+`").metadata.name`).Str
	}
	return named(flowSchemas, "X-Kubernetes-Pf-Flowschema-Uid") + " " + named(priorityLevels, "X-Kubernetes-Pf-Prioritylevel-Uid")
}

// newFlowsKept returns a server that takes the user of a request from its headers.
func newFlowsKept(t *testing.T) kept {
	return newKept(t, func(c *server.Config, _ *controlplane.Config) {
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			name := r.Header.Get("Authorization")
			return &user.DefaultInfo{Name: name, Groups: append(r.Header["Groups"], user.AllAuthenticated)}, name != "", nil
		}
	})
}

// TestFlowHeaders checks which of the predefined FlowSchemas a request is assigned to.
func TestFlowHeaders(t *testing.T) {
	k := newFlowsKept(t)
	const accounts, nodes = "system:serviceaccounts", "system:nodes"
	for _, c := range []struct{ method, path, name, groups, want string }{
		{"GET", "/api/v1/namespaces", "u", user.SystemPrivilegedGroup, "exempt exempt"},
		{"GET", "/api/v1/namespaces", "u", "", "global-default global-default"},
		{"GET", "/readyz", "u", "", "probes exempt"},
		{"GET", "/readyz/ping", "u", "", "probes exempt"},
		{"GET", "/readyzy", "u", "", "global-default global-default"},
		{"GET", "/version", "u", "", "global-default global-default"},
		{"GET", "/api/v1/pods", user.KubeControllerManager, "", "kube-controller-manager workload-high"},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", user.KubeControllerManager, "", "system-leader-election leader-election"},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/other/leases/x", user.KubeControllerManager, "", "system-leader-election leader-election"},
		{"DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", user.KubeControllerManager, "", "kube-controller-manager workload-high"},
		{"GET", "/api/v1/pods", user.KubeScheduler, "", "kube-scheduler workload-high"},
		{"GET", "/api/v1/nodes/n", "system:node:n", nodes, "system-node-high node-high"},
		{"PATCH", "/api/v1/nodes/n/status", "system:node:n", nodes, "system-node-high node-high"},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n", "system:node:n", nodes, "system-node-high node-high"},
		{"GET", "/api/v1/pods", "system:node:n", nodes, "system-nodes system"},
		{"GET", "/api/v1/pods", "system:serviceaccount:kube-system:a", accounts, "kube-system-service-accounts workload-high"},
		{"GET", "/version", "system:serviceaccount:kube-system:a", accounts, "kube-system-service-accounts workload-high"},
		{"GET", "/api/v1/pods", "system:serviceaccount:kube-systems:a", accounts, "service-accounts workload-low"},
		{"GET", "/api/v1/namespaces/x/pods", "system:serviceaccount:x:a", accounts, "service-accounts workload-low"},
	} {
		if got := k.flowOf(c.method, c.path, c.name, strings.Fields(c.groups)...); got != c.want {
			t.Errorf("%s %s of %s: %s, want %s", c.method, c.path, c.name, got, c.want)
		}
	}
	if h := get(k.s.Handler(), "/api", "").Header(); h["X-Kubernetes-Pf-Flowschema-Uid"] != nil {
		t.Errorf("an anonymous client was told: %v", h)
	}
}

// TestFlowOfUsers checks that FlowSchemas of users are in force once their status says so, and until they are deleted.
func TestFlowOfUsers(t *testing.T) {
	k := newFlowsKept(t)
	const resource, pods = "flowschemas.flowcontrol.apiserver.k8s.io", "/api/v1/namespaces/x/pods"
	add := func(name, rules string) {
		t.Helper()
		k.send("POST", flowSchemas, `{"metadata":{"name":"`+name+`"},"spec":{"priorityLevelConfiguration":{"name":"own"},
			"matchingPrecedence":5,"rules":[`+rules+`]}}`)
		k.until("seen", resource, flowSchemas+"/"+name, func(a string) bool { return gjson.Get(a, "status.conditions.0.status").Exists() })
	}
	const subject = `"subjects":[{"kind":"User","user":{"name":"u"}},{"kind":"ServiceAccount","serviceAccount":{"namespace":"x","name":"a"}}]`
	add("own", `{`+subject+`,"resourceRules":[{"verbs":["list"],"apiGroups":[""],"resources":["pods"],"namespaces":["x"]}]}`)
	if got := k.flowOf("GET", pods, "u"); got != "global-default global-default" {
		t.Errorf("a FlowSchema without a priority level is in force: %s", got)
	}
	k.send("POST", priorityLevels, `{"metadata":{"name":"own"},"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject"}}}}`)
	k.until("in force", resource, flowSchemas+"/own", field("status.conditions.0.status", "False"))
	add("paths", `{`+subject+`,"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["/openapi/*"]}]}`)
	for request, want := range map[string]string{
		"u GET " + pods:                             "own own",
		"system:serviceaccount:x:a GET " + pods:     "own own",
		"v GET " + pods:                             "global-default global-default",
		"u DELETE " + pods:                          "global-default global-default", // another verb
		"u GET " + pods + "/y/status":               "global-default global-default",
		"u GET /api/v1/pods":                        "global-default global-default", // only clusterScope would match
		"u GET /api/v1/namespaces/y/pods":           "global-default global-default",
		"u GET /apis/apps/v1/namespaces/x/pods":     "global-default global-default",
		"u GET /openapi/v3":                         "paths own",
		"u GET /openapis":                           "global-default global-default",
		"system:serviceaccount:x:b GET /openapi/v3": "global-default global-default",
	} {
		name, call, _ := strings.Cut(request, " ")
		method, path, _ := strings.Cut(call, " ")
		if got := k.flowOf(method, path, name); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	k.send("DELETE", flowSchemas+"/own", "")
	add("other", `{`+subject+`,"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["/other"]}]}`) // in force after the deletion was seen
	if got := k.flowOf("GET", pods, "u"); got != "global-default global-default" {
		t.Errorf("a FlowSchema that is gone is in force: %s", got)
	}
}
