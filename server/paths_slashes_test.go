package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A path with an empty element in place of a name gets kube-apiserver's error for the missing name; trailing slashes are ignored.
func TestPathsWithoutNames(t *testing.T) {
	h := newServer(t, nil).Handler()
	const noNamespace, noName, nothing = "Namespace parameter required.", "name must be provided", "the server could not find the requested resource"
	for _, c := range []struct {
		method, path string
		code         int
		message      string
	}{
		{"GET", "/api/v1/namespaces//configmaps/x", 400, noNamespace},
		{"PUT", "/api/v1/namespaces//configmaps/x", 400, "the name of the object (x based on URL) was undeterminable: name must be provided"},
		{"PATCH", "/api/v1/namespaces//configmaps/x", 400, noNamespace},
		{"DELETE", "/apis/apps/v1/namespaces//deployments/x", 400, noNamespace},
		{"GET", "/apis/apps/v1/namespaces//deployments/x/status", 400, noNamespace},
		{"GET", "/api/v1/namespaces//pods/a/log", 400, noNamespace},
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
		answersWith(t, h, r, c.code, c.message)
	}
}

// answersWith checks the code of the response to a request of master and, unless it is empty, the message.
func answersWith(t *testing.T, h http.Handler, r *http.Request, code int, message string) {
	t.Helper()
	r.Header.Set("Authorization", "master")
	r.Header.Set("Content-Type", "application/json")
	if r.Method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != code || !strings.Contains(w.Body.String(), `"message":"`+message+`"`) && message != "" {
		t.Errorf("%s %s: %d %s, want %d %s", r.Method, r.URL, w.Code, w.Body, code, message)
	}
}

// A path with an empty namespace is valid, and the lookup of the object reports the missing namespace; earlier errors come first, as in
// kube-apiserver. Nothing is written or deleted there.
func TestPathsInNoNamespace(t *testing.T) {
	h := newServer(t, nil).Handler()
	const noNamespace, nothing, notAllowed = "Namespace parameter required.", "the server could not find the requested resource",
		"the server does not allow this method on the requested resource"
	const x, percent = `{"metadata":{"name":"x"}}`, `Name parameter invalid: \"a%\": may not contain '%'`
	const review = `{"spec":{"user":"jane","resourceAttributes":{"verb":"get","resource":"pods"}}}`
	for _, c := range []struct {
		method, path, body string
		code               int
		message            string
	}{
		{"POST", "/api/v1/namespaces/default/configmaps", x, 201, ""},
		{"POST", "/api/v1/namespaces//configmaps", x, 422, `ConfigMap \"x\" is invalid: metadata.namespace: Required value`},
		{"POST", "/api/v1/configmaps", x, 405, notAllowed},
		{"PUT", "/api/v1/namespaces//configmaps/x", x, 400, noNamespace},
		{"PUT", "/api/v1/namespaces//configmaps/y", x, 400, "the name of the object (x) does not match the name on the URL (y)"},
		{"PATCH", "/api/v1/namespaces//configmaps/x", "{", 400, "invalid JSON patch"},
		{"GET", "/api/v1/namespaces//configmaps/x?resourceVersion=a", "", 400, noNamespace},
		{"DELETE", "/api/v1/namespaces//configmaps", "", 400, noNamespace},
		{"DELETE", "/api/v1/namespaces//replicationcontrollers", "", 200, ""},
		{"DELETE", "/api/v1/configmaps", "", 405, notAllowed},
		{"GET", "/api/v1/namespaces/default/configmaps/x", "", 200, ""},
		{"GET", "/api/v1/watch/namespaces//configmaps/x?timeoutSeconds=1", "", 200, ""},
		{"GET", "/api/v1/watch/namespaces//nodes?timeoutSeconds=1", "", 404, nothing},
		{"GET", "/api/v1/watch/namespaces//nodes/x?timeoutSeconds=1", "", 404, nothing},
		{"GET", "/api/v1/watch/namespaces/default/pods/x/status", "", 404, nothing},
		{"GET", "/api/v1/watch/nodes/x/proxy", "", 404, nothing},
		{"GET", "/api/v1/namespaces//services/s/proxy", "", 400, "missing required namespace"},
		{"GET", "/api/v1/namespaces//pods/s/proxy", "", 400, noNamespace},
		{"GET", "/api/v1/nodes/a%25/proxy", "", 400, percent},
		{"GET", "/api/v1/namespaces/default/pods/a%25/log", "", 400, percent},
		{"POST", "/api/v1/namespaces//pods/x/eviction", x, 400, noNamespace},
		{"POST", "/api/v1/namespaces//pods/s/eviction", x, 400, "name in URL does not match name in Eviction object"},
		{"POST", "/api/v1/namespaces//bindings", "{}", 500, "target.name: Required value"},
		{"POST", "/apis/authorization.k8s.io/v1/namespaces//localsubjectaccessreviews", review, 400, "namespace is required on this type: "},
		{"GET", "/apis/authorization.k8s.io/v1/namespaces//localsubjectaccessreviews", "", 405, notAllowed},
		{"POST", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews", "{}", 404, nothing},
	} {
		answersWith(t, h, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)), c.code, c.message)
	}
}
