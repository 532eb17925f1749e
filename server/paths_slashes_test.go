package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// A path with two slashes where a name should be is answered as kube-apiserver answers it: what is missing is said, and at the end of a
// path they say nothing.
func TestPathsWithoutNames(t *testing.T) {
	h := newServer(t, nil).Handler()
	const noNamespace, noName, nothing = "Namespace parameter required.", "name must be provided", "the server could not find the requested resource"
	for _, c := range []struct {
		method, path string
		code         int
		message      string
	}{
		{"GET", "/api/v1/namespaces//configmaps/x", 400, noNamespace},
		{"PUT", "/api/v1/namespaces//configmaps/x", 400, noNamespace},
		{"PATCH", "/api/v1/namespaces//configmaps/x", 400, noNamespace},
		{"DELETE", "/apis/apps/v1/namespaces//deployments/x", 400, noNamespace},
		{"GET", "/apis/apps/v1/namespaces//deployments/x/status", 400, noNamespace},
		{"GET", "/api/v1/namespaces//pods/a/log", 400, noNamespace},
		{"POST", "/api/v1/namespaces//serviceaccounts/default/token", 400, noNamespace},
		{"GET", "/api/v1/namespaces//configmaps", 200, ""},
		{"GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dx", 200, ""},
		{"GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dx&limit=5", 200, ""},
		{"GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dx&watch=1&timeoutSeconds=1", 200, ""},
		{"GET", "/api/v1/namespaces//configmaps?fieldSelector=metadata.name%3Dx", 200, ""},
		{"GET", "/api/v1/watch/configmaps?fieldSelector=metadata.name%3Dx&timeoutSeconds=1", 200, ""},
		{"GET", "/api/v1/configmaps/x", 404, nothing},
		{"GET", "/api/v1/namespaces//nodes/x", 404, nothing},
		{"GET", "/api/v1/namespaces//nodes", 404, nothing},
		{"GET", "/api/v1/nodes/n/proxy/namespaces//x", 404, `nodes \"n\" not found`},
		{"GET", "/api/v1/nodes//status", 400, noName},
		{"PUT", "/api/v1/nodes//status", 400, noName},
		{"PATCH", "/api/v1/namespaces//status", 400, noName},
		{"PUT", "/api/v1/namespaces//finalize", 400, noName},
		{"GET", "/api/v1/namespaces/default/pods//log", 400, noName},
		{"POST", "/api/v1/namespaces/default/pods//eviction", 400, noName},
		{"GET", "/apis/apps/v1/namespaces/default/deployments//scale", 400, noName},
		{"DELETE", "/api/v1/nodes//status", 405, "the server does not allow this method on the requested resource"},
		{"GET", "/api/v1/namespaces//", 200, ""},
		{"GET", "/api/v1/namespaces///", 200, ""},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader("{}"))
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", "application/json")
		if c.method == "PATCH" {
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), `"message":"`+c.message+`"`) && c.message != "" {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, w.Code, w.Body, c.code, c.message)
		}
	}
}
