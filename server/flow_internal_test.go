package server

import (
	"context"
	"net/http/httptest"
	"testing"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// TestCountedAsAnotherRunsAsLong expects a stream of an aggregated API, whose names upstream's filter must not count, to be exempt from its limits.
func TestCountedAsAnotherRunsAsLong(t *testing.T) {
	sent := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIGroup: "example.com", Resource: "machines", Subresource: "portforward"}
	counted := &genericapirequest.RequestInfo{Verb: sent.Verb}
	r := httptest.NewRequest("POST", "/apis/example.com/v1/namespaces/a/machines/b/portforward", nil)
	if longRunningRequest(r, counted) {
		t.Error("a request without a subresource runs long")
	}
	r = r.WithContext(context.WithValue(r.Context(), sentInfoKey{}, sent))
	if !longRunningRequest(r, counted) {
		t.Error("a stream that is counted as another request does not run long")
	}
}
