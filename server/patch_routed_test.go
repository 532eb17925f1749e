package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// Of a patch whose Content-Type kube-apiserver's router accepts and its handler does not, the answer names the kinds of patch and warns of a
// deprecated version, and it is counted. A kind of patch that the router does not know is refused before.
func TestPatchesThatOnlyTheRouterTakes(t *testing.T) {
	h := newServer(t, nil).Handler()
	const taken = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, " +
		"application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
	for contentType, want := range map[string]string{"text/plain": "415: Unsupported Media Type", "application/merge-patch+json ; charset=utf-8": taken,
		"text/plain, application/merge-patch+json": taken} {
		r, w := httptest.NewRequest("PATCH", "/api/v1/namespaces/default/endpoints/a", strings.NewReader("{}")), httptest.NewRecorder()
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", contentType)
		h.ServeHTTP(w, r)
		if got := gjson.GetBytes(w.Body.Bytes(), "message").Str; w.Code != 415 || got != want || (w.Header().Get("Warning") != "") != (want == taken) {
			t.Errorf("%s: %d %s, warning %q", contentType, w.Code, got, w.Header().Get("Warning"))
		}
	}
	wantLine(t, get(h, "/metrics", "master").Body.String(), `apiserver_request_total{code="415",component="apiserver",dry_run="",group="",resource="endpoints",`+
		`scope="resource",subresource="",verb="PATCH",version="v1"} 2`)
}
