package handlers_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// "Resource URIs", "API verbs", "Object names": these paths exist, and support these methods.
func TestPaths(t *testing.T) {
	notFound := says{"kind": "Status", "reason": "NotFound", "message": "the server could not find the requested resource", "details": "{}"}
	notAllowed := says{"reason": "MethodNotAllowed", "message": "the server does not allow this method on the requested resource"}
	newAPI(t).run(
		exchange{do: "GET /apis/none/v1/things", code: 404, answer: says{"Content-Type": "text/plain; charset=utf-8"}},
		exchange{do: "GET /api/v1/things", code: 404, says: notFound},
		exchange{do: "GET /apis/apps/v9/deployments", code: 404, says: notFound},
		exchange{do: "GET " + configMaps + "/", code: 200, says: says{"kind": "ConfigMapList"}},
		exchange{do: "GET " + configMaps + "/a/b/c", code: 404, says: notFound},
		exchange{do: "GET " + configMaps + "/a/status", code: 404, says: notFound},
		exchange{shows: "in no namespace", do: "GET /api/v1/configmaps/a", code: 404, says: notFound},
		exchange{shows: "of no namespace", do: "GET /api/v1/namespaces/test/nodes", code: 404, says: notFound},
		exchange{do: "GET /api/v1/namespaces/test/namespaces", code: 404, says: notFound},
		exchange{do: "GET /api/v1/namespaces/test/namespaces/default", code: 404, says: notFound},
		exchange{do: "GET /api/v1/namespaces/test", code: 200},
		exchange{do: "GET /api/v1/namespaces/test/status", code: 200},
		exchange{do: "POST /api/v1/bindings", body: "{}", code: 404, says: notFound},
		exchange{do: "GET /apis/authentication.k8s.io/v1/tokenreviews/x", code: 404, says: notFound},
		exchange{do: "GET /apis/authentication.k8s.io/v1/tokenreviews", code: 405, says: notAllowed},
		exchange{do: "GET /api/v1/proxy/nodes/x", code: 404, says: notFound},
		exchange{do: "POST /api/v1/configmaps", body: "{}", code: 405, says: notAllowed},
		exchange{do: "PUT " + configMaps, body: "{}", code: 405, says: notAllowed},
		exchange{do: "HEAD " + configMaps, code: 405},
		exchange{do: "OPTIONS " + configMaps, code: 405},
		exchange{do: "OPTIONS /version", code: 405},
		exchange{do: "BREW " + configMaps, code: 405, says: notAllowed},
		exchange{do: "GET /api/v1/componentstatuses/etcd-0?export=true", code: 400, says: says{"message": "the export parameter, deprecated since v1.14, is no longer supported"}},
		exchange{do: "GET /api/v1/componentstatuses?watch=1&resourceVersionMatch=x", code: 422, says: says{"details.kind": "ListOptions"}},
		exchange{do: "GET /api/v1/componentstatuses?watch=1&limit=x", code: 400},
		exchange{do: "GET /api/v1/componentstatuses?watch=1", code: 405, says: says{"message": `watch is not supported on resources of kind "componentstatuses"`}},
		exchange{do: "GET " + configMaps + "/none?unknown=parameter", code: 404, says: says{"message": `configmaps "none" not found`, "details": `{"name":"none","kind":"configmaps"}`}},
		exchange{do: "GET " + configMaps + "/none?timeout=soon", code: 400, says: says{"reason": "BadRequest"}},
	)
}

func TestBadBodies(t *testing.T) {
	create := "POST " + configMaps
	newAPI(t).run(
		exchange{do: create, body: "", code: 400, says: says{"reason": "BadRequest"}},
		exchange{do: create, body: "{", code: 400},
		exchange{do: create, body: "[]", code: 400},
		exchange{do: create, body: strings.Repeat(`{"a":`, 20000), code: 400},
		exchange{do: create, body: `{"kind":"Pod","apiVersion":"v1"}`, code: 400,
			says: says{"message": `Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion`}},
		exchange{do: create, body: `{"kind":"ConfigMap","apiVersion":"v9"}`, code: 400},
		exchange{do: create, body: `{"metadata":{"name":5}}`, code: 400},
		exchange{do: create, body: `{"metadata":{"name":"a","namespace":"other"}}`, code: 400,
			says: says{"message": "the namespace of the provided object does not match the namespace sent on the request"}},
		exchange{do: create, body: `{"metadata":{}}`, code: 422, says: says{"details.causes.0.message": "Required value: name or generateName is required"}},
		exchange{do: create, body: `{"metadata":{"name":"A_"}}`, code: 422, says: says{"reason": "Invalid", "details.causes.0.field": "metadata.name"}},
		exchange{do: create, body: `{"metadata":{"name":"` + strings.Repeat("a", 254) + `"}}`, code: 422},
		exchange{do: create, body: `{"metadata":{"name":"a"},"data":{"k":"` + strings.Repeat("v", 3<<20) + `"}}`, code: 413,
			says: says{"reason": "RequestEntityTooLarge", "message": "Request entity too large: limit is 3145728"}},
		exchange{do: "POST /api/v1/namespaces/none/configmaps", body: `{"metadata":{"name":"a"}}`, code: 404, says: says{"message": `namespaces "none" not found`}},
		exchange{do: create, body: `{"metadata":{"name":"a"}}`, code: 201},
		exchange{do: create, body: `{"metadata":{"name":"a"}}`, code: 409, says: says{"reason": "AlreadyExists", "message": `configmaps "a" already exists`}},
	)
}

// Names that kube-apiserver accepts but no database can store are invalid: clients would retry after a 500.
func TestNamesThatCannotBeStored(t *testing.T) {
	roles := "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	long := strings.Repeat("x", 4<<10)
	invalid := func(message string) says {
		return says{"reason": "Invalid", "details.kind": "ClusterRole", "details.causes.0.field": "metadata.name", "details.causes.0.message": message}
	}
	tooLong, nul := invalid("Too long: may not be more than 2522 bytes"), invalid(`Invalid value: "a\x00b": may not contain the character U+0000`)
	newAPI(t).run(
		exchange{do: "POST " + roles, body: `{"metadata":{"name":"` + long + `"}}`, code: 422, says: tooLong},
		exchange{do: "POST " + roles + "?dryRun=All", body: `{"metadata":{"name":"` + long + `"}}`, code: 422, says: tooLong},
		exchange{do: "POST " + roles, body: `{"metadata":{"name":"a\u0000b"}}`, code: 422, says: nul},
		exchange{do: "PUT " + roles + "/a%00b", body: `{"metadata":{"name":"a\u0000b"}}`, code: 422, says: nul},
		exchange{do: "POST " + roles, body: `{"metadata":{"name":"` + long[:2522] + `"}}`, code: 201},
		exchange{do: "DELETE " + roles + "/" + long[:2522], code: 200},
		exchange{do: "GET " + roles + "/" + long, code: 404},
	)
}

// brokenStore fails in one way.
type brokenStore struct {
	resources.Store
	err error
}

func (s *brokenStore) Get(context.Context, resources.Key, resources.At) (*resources.Object, error) {
	if s.err == nil {
		panic("on purpose")
	}
	return nil, s.err
}

// Each error of the Store has its Status; a panic is a 500 for its request alone.
func TestStoreErrors(t *testing.T) {
	a := newAPI(t)
	broken := &brokenStore{Store: a.store.Store}
	a.store.Store = broken
	for _, tc := range []struct {
		err  error
		code int
		says says
	}{
		{resources.ErrNotFound, 404, says{"reason": "NotFound"}},
		{resources.ErrUnavailable, 500, says{"reason": "ServerTimeout", "details.retryAfterSeconds": "2"}},
		{resources.ErrClosed, 500, says{"reason": "ServerTimeout"}},
		{&resources.ExpectationError{Key: resources.Key{Resource: "rules", Name: "r"}}, 500, says{"reason": "ServerTimeout", "details.retryAfterSeconds": "1"}},
		{resources.ErrRefused, 422, says{"reason": "Invalid", "message": `configmaps "a" is invalid: the store cannot hold this`}},
		{resources.ErrBusy, 429, says{"reason": "TooManyRequests", "details.retryAfterSeconds": "1"}},
		{resources.ErrUnknownOutcome, 504, says{"reason": "Timeout"}},
		{context.DeadlineExceeded, 504, says{"reason": "Timeout", "message": "Timeout: request did not complete within requested timeout - context deadline exceeded"}},
		{nil, 500, says{"reason": "InternalError"}},
	} {
		broken.err = tc.err
		a.run(exchange{do: "GET " + configMaps + "/a", code: tc.code, says: tc.says})
	}
	a.store.Store = broken.Store
	a.run(exchange{shows: "the server lives", do: "GET " + configMaps + "/a", code: 404})
}
