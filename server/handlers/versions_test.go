package handlers_test

import (
	"context"
	"maps"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// historic is an API with a configmap "a" at three revisions: {rv1} (k=1), {rv2} (k=2) and, after "b" was created at {rvb}, {rv3} (k=3).
func historic(t *testing.T) *api {
	a := newAPI(t)
	a.run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"},"data":{"k":"1"}}`, code: 201, keep: says{"rv1": "metadata.resourceVersion"}},
		exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"data":{"k":"2"}}`, code: 200, keep: says{"rv2": "metadata.resourceVersion"}},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"b"}}`, code: 201, keep: says{"rvb": "metadata.resourceVersion"}},
		exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"data":{"k":"3"}}`, code: 200, keep: says{"rv3": "metadata.resourceVersion"}},
	)
	return a
}

// "Resource versions", "Semantics for get and list": get.
func TestGetAtResourceVersion(t *testing.T) {
	get := "GET " + configMaps + "/a?resourceVersion="
	historic(t).run(
		exchange{do: get, code: 200, says: says{"data.k": "3"}},
		exchange{shows: "any", do: get + "0", code: 200, says: says{"data.k": "3"}},
		exchange{shows: "not older than", do: get + "{rv1}", code: 200, says: says{"data.k": "3"}},
		exchange{do: get + "abc", code: 500, says: says{"message": `resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`}},
	)
}

// The table of "Semantics for get and list".
func TestListAtResourceVersion(t *testing.T) {
	list := "GET " + configMaps
	exact, newest := says{"items.0.data.k": "2", "items.#": "1", "metadata.resourceVersion": "{rv2}"}, says{"items.0.data.k": "3", "items.#": "2"}
	historic(t).run(
		exchange{do: list, code: 200, says: newest},
		exchange{do: list + "?resourceVersion=0", code: 200, says: newest},
		exchange{do: list + "?resourceVersion={rv2}", code: 200, says: newest},
		exchange{do: list + "?resourceVersion={rv2}&resourceVersionMatch=NotOlderThan", code: 200, says: newest},
		exchange{do: list + "?resourceVersion=0&resourceVersionMatch=NotOlderThan", code: 200, says: newest},
		exchange{do: list + "?resourceVersion={rv2}&resourceVersionMatch=Exact", code: 200, says: exact},
		exchange{shows: "with a limit and no match: exact", do: list + "?resourceVersion={rv2}&limit=5", code: 200, says: exact},
		exchange{do: list + "?resourceVersion={rv2}&resourceVersionMatch=NotOlderThan&limit=5", code: 200, says: newest},
		exchange{shows: "one object is never exact by limit alone", do: list + "?resourceVersion={rv2}&limit=5&fieldSelector=metadata.name%3Da",
			code: 200, says: says{"items.0.data.k": "3"}},
		exchange{do: list + "?resourceVersion=0&resourceVersionMatch=Exact", code: 422,
			says: says{"details.causes.0.message": `Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`}},
		exchange{do: list + "?resourceVersionMatch=Exact", code: 422,
			says: says{"details.causes.0.message": "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"}},
		exchange{do: list + "?resourceVersion={rv2}&resourceVersionMatch=Roughly", code: 422, says: says{"details.causes.0.reason": "FieldValueNotSupported"}},
		exchange{do: list + "?resourceVersion=abc", code: 400, says: says{"reason": "BadRequest"}},
	)
}

// aheadStore reports future revisions at once, where a real store first waits a little.
type aheadStore struct{ resources.Store }

func (s *aheadStore) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if at.Revision > 1000 {
		return nil, &resources.FutureRevisionError{Requested: at.Revision, Current: 7}
	}
	return s.Store.Get(ctx, key, at)
}

func (s *aheadStore) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if at.Revision > 1000 {
		return nil, &resources.FutureRevisionError{Requested: at.Revision, Current: 7}
	}
	return s.Store.Snapshot(ctx, resource, at)
}

// prunedStore has no history.
type prunedStore struct{ resources.Store }

func (s *prunedStore) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if at.Match == resources.Exact {
		return nil, &resources.ExpiredError{Requested: at.Revision, Oldest: 99}
	}
	return s.Store.Snapshot(ctx, resource, at)
}

func (s *prunedStore) Watch(context.Context, resources.WatchOptions) (resources.Watch, error) {
	return nil, &resources.ExpiredError{Requested: 1, Oldest: 99}
}

// "Unavailable resource versions".
func TestUnavailableResourceVersions(t *testing.T) {
	a := historic(t)
	a.store.Store = &aheadStore{a.store.Store}
	tooLarge := says{"reason": "Timeout", "message": "Timeout: Too large resource version: 5000, current: 7", "details.retryAfterSeconds": "1",
		"details.causes": `[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]`}
	direct := maps.Clone(tooLarge)
	direct["details.retryAfterSeconds"] = "-"
	a.run(
		exchange{do: "GET " + configMaps + "/a?resourceVersion=5000", code: 504, says: tooLarge, answer: says{"Retry-After": "1"}},
		exchange{do: "GET " + configMaps + "?resourceVersion=5000", code: 504, says: tooLarge},
		exchange{do: "GET " + configMaps + "?resourceVersion=5000&resourceVersionMatch=Exact", code: 504, says: tooLarge},
		exchange{shows: "a number that no revision reaches is said as it was sent", do: "GET " + configMaps + "/a?resourceVersion=18446744073709551615", code: 504,
			says: says{"message": "Timeout: Too large resource version: 18446744073709551615, current: 7"}},
		exchange{do: "GET " + configMaps + "?resourceVersion=9223372036854775808", code: 504,
			says: says{"message": "Timeout: Too large resource version: 9223372036854775808, current: 7"}},
		exchange{shows: "what etcd itself is asked for there has no time to wait", do: "GET " + configMaps + "?resourceVersion=5000&limit=1&fieldSelector=metadata.name%3Da",
			code: 504, says: direct, answer: says{"Retry-After": ""}},
		exchange{do: "GET " + configMaps + "?resourceVersion=5000&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Da", code: 504, says: direct},
		exchange{do: "DELETE " + configMaps + "?resourceVersion=5000&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Da", code: 504, says: direct},
		exchange{do: "DELETE " + configMaps + "?resourceVersion=5000&fieldSelector=metadata.name%3Da", code: 504, says: direct},
		exchange{do: "GET /api/v1/namespaces/default/events?resourceVersion=5000", code: 504, says: direct},
		exchange{do: "GET /api/v1/namespaces/default/events/a?resourceVersion=5000", code: 504, says: direct},
		exchange{do: "GET " + configMaps + "?resourceVersion=5000&limit=1&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Da", code: 504, says: tooLarge},
		exchange{do: "GET " + configMaps + "?resourceVersion=5000&limit=1", code: 504, says: tooLarge},
		exchange{shows: "an accepted watch says it in an event", code: 200, says: says{"type": "ERROR", "object.code": "504", "object.message": tooLarge["message"]},
			do: "GET " + configMaps + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=5000&timeoutSeconds=1"},
	)
}

// "410 Gone responses".
func TestExpiredResourceVersions(t *testing.T) {
	a := historic(t)
	a.run(exchange{do: "GET " + configMaps + "?limit=1", code: 200, keep: says{"next": "metadata.continue"}})
	a.store.Store = &prunedStore{a.store.Store}
	a.run(
		exchange{do: "GET " + configMaps + "?resourceVersion={rv1}&resourceVersionMatch=Exact", code: 410,
			says: says{"reason": "Expired", "message": "The resourceVersion for the provided list is too old."}},
		exchange{do: "GET " + configMaps + "?watch=1&resourceVersion={rv1}", code: 200,
			says: says{"type": "ERROR", "object.code": "410", "object.reason": "Expired", "object.message": "too old resource version: 1 (99)"}},
		exchange{shows: "a type without a watch cache", do: "GET /api/v1/events?watch=1&resourceVersion={rv1}", code: 200,
			says: says{"type": "ERROR", "object.code": "410", "object.reason": "Expired", "object.message": "The resourceVersion for the provided watch is too old."}},
		exchange{shows: "a list in chunks may go on, without being consistent", do: "GET " + configMaps + "?limit=1&continue={next}", code: 410,
			says: says{"reason": "Expired"}, keep: says{"inconsistent": "metadata.continue"}},
		exchange{do: "GET " + configMaps + "?limit=1&continue={inconsistent}", code: 200, says: says{"items.#.metadata.name": `["b"]`}},
	)
}

// The metadata.resourceVersion of a body has 64 bits, as that of a query: no object has a number beyond all revisions.
func TestResourceVersionBeyondAllRevisions(t *testing.T) {
	const (
		leases   = "/apis/coordination.k8s.io/v1/namespaces/test/leases"
		outdated = "the object has been modified; please apply your changes to the latest version and try again"
	)
	for _, beyond := range []string{"9223372036854775808", "18446744073709551615"} {
		body := func(name string) string {
			return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","resourceVersion":"` + beyond + `"}}`
		}
		conflict := says{"reason": "Conflict", "message": `Operation cannot be fulfilled on configmaps "a": ` + outdated}
		newAPI(t).run(
			exchange{do: "POST " + configMaps, body: body("a"), code: 500, says: says{"message": "resourceVersion should not be set on objects to be created"}},
			exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 201},
			exchange{do: "PUT " + configMaps + "/a", body: body("a"), code: 409, says: conflict},
			exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: body("a"), code: 409, says: conflict},
			exchange{do: "PATCH " + configMaps + "/a?fieldManager=m", header: asApply, body: body("a"), code: 409, says: conflict},
			exchange{do: "PATCH " + configMaps + "/b?fieldManager=m", header: asApply, body: body("b"), code: 201},
			exchange{do: "PUT " + leases + "/l", body: `{"metadata":{"name":"l","resourceVersion":"` + beyond + `"}}`, code: 201},
			exchange{do: "PUT " + leases + "/m", body: `{"metadata":{"name":"m","resourceVersion":"18446744073709551616"}}`, code: 500,
				says: says{"message": `strconv.ParseUint: parsing "18446744073709551616": value out of range`}},
		)
	}
}
