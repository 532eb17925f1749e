package handlers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// "Resource deletion": deletion has two phases with finalizers or a grace period, and one without.
func TestFinalizers(t *testing.T) {
	newAPI(t).run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"plain"}}`, code: 201, keep: says{"uid": "metadata.uid"}},
		exchange{do: "DELETE " + configMaps + "/plain", code: 200,
			says: says{"kind": "Status", "status": "Success", "details": `{"name":"plain","kind":"configmaps","uid":"{uid}"}`}},
		exchange{do: "GET " + configMaps + "/plain", code: 404},
		exchange{do: "DELETE " + configMaps + "/plain", code: 404, says: says{"message": `configmaps "plain" not found`}},

		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a","finalizers":["x.y/1","x.y/2"]}}`, code: 201},
		exchange{do: "DELETE " + configMaps + "/a", code: 200, keep: says{"rv": "metadata.resourceVersion", "at": "metadata.deletionTimestamp"},
			says: says{"kind": "ConfigMap", "metadata.deletionGracePeriodSeconds": "0", "metadata.finalizers": `["x.y/1","x.y/2"]`}},
		exchange{shows: "again: nothing happens", do: "DELETE " + configMaps + "/a", code: 200,
			says: says{"metadata.resourceVersion": "{rv}", "metadata.deletionTimestamp": "{at}"}},
		exchange{shows: "no new finalizers now", do: "PATCH " + configMaps + "/a", header: asMergePatch, code: 422,
			body: `{"metadata":{"finalizers":["x.y/1","x.y/2","x.y/3"]}}`, says: says{"details.causes.0.field": "metadata.finalizers"}},
		exchange{shows: "the name is taken", do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 409,
			says: says{"reason": "AlreadyExists", "message": `object is being deleted: configmaps "a" already exists`}},
		exchange{shows: "in any order", do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"metadata":{"finalizers":["x.y/2"]}}`, code: 200,
			says: says{"metadata.finalizers": `["x.y/2"]`}},
		exchange{shows: "a dry run removes nothing", do: "PATCH " + configMaps + "/a?dryRun=All", header: asMergePatch, body: `{"metadata":{"finalizers":null}}`, code: 200},
		exchange{do: "GET " + configMaps + "/a", code: 200},
		exchange{shows: "the last one", do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"metadata":{"finalizers":null}}`, code: 200,
			says: says{"metadata.finalizers": "-"}},
		exchange{do: "GET " + configMaps + "/a", code: 404},
	)
}

func TestPropagation(t *testing.T) {
	for options, want := range map[string]says{
		"propagationPolicy=Foreground": {"kind": "ConfigMap", "metadata.finalizers": `["foregroundDeletion"]`},
		"propagationPolicy=Orphan":     {"kind": "ConfigMap", "metadata.finalizers": `["orphan"]`},
		"orphanDependents=true":        {"kind": "ConfigMap", "metadata.finalizers": `["orphan"]`},
		"orphanDependents=false":       {"kind": "Status"},
		"propagationPolicy=Background": {"kind": "Status"},
		"gracePeriodSeconds=30":        {"kind": "Status"},
		"dryRun":                       {"kind": "Status"},
	} {
		t.Run(options, func(t *testing.T) {
			newAPI(t).run(
				exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 201},
				exchange{do: "DELETE " + configMaps + "/a?" + options, code: 200, says: want})
		})
	}
}

func TestDeleteOptions(t *testing.T) {
	newAPI(t).run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 201, keep: says{"uid": "metadata.uid", "rv": "metadata.resourceVersion"}},
		exchange{do: "DELETE " + configMaps + "/a", body: `{"preconditions":{"uid":"other"}}`, code: 409, says: says{"reason": "Conflict",
			"message": `Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID in record ({uid}). The object might have been deleted and then recreated`}},
		exchange{do: "DELETE " + configMaps + "/a", body: `{"preconditions":{"resourceVersion":"1"}}`, code: 409},
		exchange{do: "DELETE " + configMaps + "/a", body: `{"propagationPolicy":"Sideways"}`, code: 422, says: says{"details.causes.0.field": "propagationPolicy"}},
		exchange{do: "DELETE " + configMaps + "/a?propagationPolicy=Orphan&orphanDependents=true", code: 422},
		exchange{do: "DELETE " + configMaps + "/a?gracePeriodSeconds=soon", code: 400},
		exchange{do: "DELETE " + configMaps + "/a", body: `{`, code: 400},
		exchange{do: "DELETE " + configMaps + "/a", body: `{"kind":"Pod","apiVersion":"v1"}`, code: 400},
		exchange{do: "DELETE " + configMaps + "/a", header: says{"Content-Type": "text/plain"}, body: `x`, code: 415},
		exchange{shows: "only for what cannot be read", do: "DELETE " + configMaps + "/a?ignoreStoreReadErrorWithClusterBreakingPotential=true", code: 409},
		exchange{do: "DELETE " + configMaps + "/a", body: `{"dryRun":["All"]}`, code: 200, says: says{"status": "Success"}},
		exchange{shows: "as YAML", do: "DELETE " + configMaps + "/a", header: asYAML, body: "preconditions: {uid: {uid}, resourceVersion: '{rv}'}", code: 200},
		exchange{do: "GET " + configMaps + "/a", code: 404},
	)
}

// Pods on a node are deleted gracefully, and others at once.
func TestGracePeriod(t *testing.T) {
	pods := "/api/v1/namespaces/test/pods"
	const running = `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`
	newAPI(t).run(
		exchange{do: "POST " + pods, body: `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, code: 201},
		exchange{do: "DELETE " + pods + "/q", code: 200, says: says{"kind": "Pod", "metadata.deletionGracePeriodSeconds": "0"}},
		exchange{do: "GET " + pods + "/q", code: 404},
		exchange{do: "POST " + pods, body: running, code: 201},
		exchange{do: "DELETE " + pods + "/p", code: 200, says: says{"metadata.deletionGracePeriodSeconds": "30", "metadata.generation": "2"}},
		exchange{shows: "it may become shorter", do: "DELETE " + pods + "/p?gracePeriodSeconds=5", code: 200, says: says{"metadata.deletionGracePeriodSeconds": "5"}},
		exchange{shows: "but not longer", do: "DELETE " + pods + "/p?gracePeriodSeconds=60", code: 200, says: says{"metadata.deletionGracePeriodSeconds": "5"}},
		exchange{shows: "the kubelet is done", do: "DELETE " + pods + "/p?gracePeriodSeconds=0", code: 200},
		exchange{do: "GET " + pods + "/p", code: 404},
	)
}

// A dry run of an immediate deletion says that the object is gone, as the deletion does.
func TestGracePeriodDry(t *testing.T) {
	const pod = "/api/v1/namespaces/test/pods/p?dryRun=All&orphanDependents=false"
	newAPI(t).run(
		exchange{do: "POST /api/v1/namespaces/test/pods", code: 201, body: `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`},
		exchange{do: "DELETE " + pod, code: 202, says: says{"metadata.deletionGracePeriodSeconds": "30"}},
		exchange{do: "DELETE " + pod + "&gracePeriodSeconds=0", code: 200, says: says{"kind": "Pod", "metadata.deletionGracePeriodSeconds": "0", "metadata.generation": "2"}},
		exchange{do: "GET /api/v1/namespaces/test/pods/p", code: 200, says: says{"metadata.deletionTimestamp": "-"}},
	)
}

// A deletion that takes off the last finalizer removes the object in one step. kube-apiserver compares the precondition with an empty object, and answers
// a dry run with one.
func TestDeletionByLastFinalizer(t *testing.T) {
	for _, finalizer := range []string{"orphan", "foregroundDeletion"} {
		newAPI(t).run(
			exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a","finalizers":["` + finalizer + `"]}}`, code: 201,
				keep: says{"rv": "metadata.resourceVersion", "uid": "metadata.uid"}},
			exchange{do: "DELETE " + configMaps + "/a?propagationPolicy=Background&dryRun=All", code: 200, says: says{"kind": "Status", "details.uid": "{uid}"}},
			exchange{do: "DELETE " + configMaps + "/a", code: 409, body: `{"propagationPolicy":"Background","preconditions":{"resourceVersion":"1"}}`},
			exchange{do: "DELETE " + configMaps + "/a", code: 200, body: `{"propagationPolicy":"Background","preconditions":{"resourceVersion":"{rv}"}}`, says: says{"kind": "Status"}},
			exchange{do: "GET " + configMaps + "/a", code: 404},
		)
	}
}

// lifetimes remembers the lifetime of each write of Events.
type lifetimes struct {
	resources.Store
	ttls []time.Duration
}

func (s *lifetimes) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	for _, w := range writes {
		if w.Key.Resource == "events" {
			s.ttls = append(s.ttls, w.TTL)
		}
	}
	return s.Store.Commit(ctx, writes...)
}

// An Event that finalizers keep stays until they are gone. An update gives it another lifetime, as any Event.
func TestFinalizersOfEvents(t *testing.T) {
	a := newAPI(t)
	s := &lifetimes{Store: a.store.Store}
	a.store.Store = s
	const events = "/api/v1/namespaces/test/events"
	a.run(
		exchange{do: "POST " + events, code: 201, body: `{"metadata":{"name":"e","finalizers":["x.y/1"]},"involvedObject":{"namespace":"test"},"reason":"r"}`},
		exchange{do: "DELETE " + events + "/e", code: 200, says: says{"metadata.finalizers": `["x.y/1"]`}},
		exchange{do: "PATCH " + events + "/e", header: asMergePatch, body: `{"reason":"s"}`, code: 200},
		exchange{do: "DELETE " + events + "/e", code: 200},
	)
	if want := []time.Duration{builtin.DefaultEventTTL, 0, builtin.DefaultEventTTL}; !slices.Equal(s.ttls, want) {
		t.Errorf("the lifetimes of the writes are %v, want %v", s.ttls, want)
	}
}

func TestNamespaceDeletion(t *testing.T) {
	newAPI(t).run(
		exchange{do: "DELETE /api/v1/namespaces/default", code: 403, says: says{"message": `namespaces "default" is forbidden: this namespace may not be deleted`}},
		exchange{do: "DELETE /api/v1/namespaces/test", body: `{"preconditions":{"uid":"other"}}`, code: 409, says: says{"details.kind": "namespaces"}},
		exchange{do: "DELETE /api/v1/namespaces/test?orphanDependents=false", code: 202, keep: says{"rv": "metadata.resourceVersion"},
			says: says{"status.phase": "Terminating", "metadata.finalizers": `["foregroundDeletion"]`}},
		exchange{shows: "another policy comes too late", do: "DELETE /api/v1/namespaces/test?propagationPolicy=Orphan", code: 200, says: says{"metadata.resourceVersion": "{rv}"}},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"late"}}`, code: 403, says: says{"reason": "Forbidden", "details.causes.0.reason": "NamespaceTerminating",
			"message": `configmaps "late" is forbidden: unable to create new content in namespace test because it is being terminated`}},
		exchange{do: "PATCH /api/v1/namespaces/test", header: asMergePatch, body: `{"metadata":{"finalizers":null}}`, code: 200},
		exchange{do: "PUT /api/v1/namespaces/test/finalize", body: `{"metadata":{"name":"test"},"spec":{"finalizers":[]}}`, code: 200},
		exchange{do: "GET /api/v1/namespaces/test", code: 404},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"later"}}`, code: 404, says: says{"message": `namespaces "test" not found`}},
	)
}

// An object whose namespace is gone can be changed, and deleted: it loses its finalizers by a PATCH or a PUT. Nothing is created beside it.
func TestFinalizersInMissingNamespace(t *testing.T) {
	const missing = `namespaces "test" not found`
	newAPI(t).run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a","finalizers":["x.y/1","x.y/2"]}}`, code: 201},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"b","finalizers":["x.y/1"]}}`, code: 201},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"c"}}`, code: 201},
		exchange{do: "DELETE /api/v1/namespaces/test", code: 200},
		exchange{do: "PUT /api/v1/namespaces/test/finalize", body: `{"metadata":{"name":"test"},"spec":{"finalizers":[]}}`, code: 200},
		exchange{do: "GET /api/v1/namespaces/test", code: 404},

		exchange{do: "DELETE " + configMaps + "/a", code: 200, says: says{"metadata.finalizers": `["x.y/1","x.y/2"]`}},
		exchange{do: "PATCH " + configMaps + "/a?dryRun=All", header: asMergePatch, body: `{"metadata":{"finalizers":null}}`, code: 200},
		exchange{do: "PATCH " + configMaps + "/a", header: asJSONPatch, body: `[{"op":"remove","path":"/metadata/finalizers/0"}]`, code: 200},
		exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"metadata":{"finalizers":null}}`, code: 200},
		exchange{do: "GET " + configMaps + "/a", code: 404},

		exchange{do: "PUT " + configMaps + "/b", body: `{"metadata":{"name":"b"},"data":{"k":"v"}}`, code: 200, says: says{"metadata.finalizers": "-", "data.k": "v"}},
		exchange{do: "PATCH " + configMaps + "/c?fieldManager=m", header: asApply, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"}}`, code: 200},
		exchange{shows: "that would create it", do: "PATCH " + configMaps + "/d?fieldManager=m", header: asApply, code: 404,
			body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"}}`, says: says{"message": missing}},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"d"}}`, code: 404, says: says{"message": missing}},
	)
}

// Deleting an object again that is being deleted succeeds without webhooks: they are called for the first deletion, and for the last one, which
// removes the object.
func TestNamespaceDeletionAsksOnce(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	const namespace, asked = "/api/v1/namespaces/test", "hook DELETE v1 namespaces Namespace test/test old DeleteOptions"
	a.run(exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/hook", ruleFor("", "v1", "namespaces"), ""))},
		exchange{do: "PATCH " + namespace, header: asMergePatch, body: `{"metadata":{"finalizers":["x.y/z"]}}`, code: 200})
	v.take()
	a.run(exchange{do: "DELETE " + namespace, code: 200})
	v.wants(t, "the first deletion", asked)
	a.run(exchange{do: "DELETE " + namespace, code: 200, says: says{"status.phase": "Terminating"}}, exchange{do: "DELETE " + namespace + "?dryRun=All", code: 200})
	v.wants(t, "further ones")
	a.run(exchange{do: "PUT " + namespace + "/finalize", body: `{"metadata":{"name":"test","finalizers":["x.y/z"]},"spec":{"finalizers":[]}}`, code: 200})
	v.take()
	a.run(exchange{do: "DELETE " + namespace, code: 200})
	v.wants(t, "the last one", asked)
}

func TestDeleteCollection(t *testing.T) {
	newAPI(t).run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a","labels":{"x":"1"}}}`, code: 201},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"b","labels":{"x":"2"}}}`, code: 201},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"c","labels":{"x":"1"},"finalizers":["x.y/1"]}}`, code: 201},
		exchange{do: "DELETE " + configMaps + "?dryRun=All", code: 200, says: says{"items.#.metadata.name": `["a","b","c"]`}},
		exchange{do: "DELETE " + configMaps + "?labelSelector=x%3D1", code: 200, says: says{"kind": "ConfigMapList", "items.#.metadata.name": `["a","c"]`}},
		exchange{do: "GET " + configMaps, code: 200, says: says{"items.#.metadata.name": `["b","c"]`, "items.0.metadata.deletionTimestamp": "-"}},
		exchange{do: "DELETE " + configMaps + "?ignoreStoreReadErrorWithClusterBreakingPotential=true", code: 422},
		exchange{do: "DELETE /api/v1/configmaps", code: 405},
		exchange{do: "DELETE /api/v1/namespaces", code: 405},
		exchange{shows: "what warns of a delete warns once", do: "DELETE /apis/batch/v1/namespaces/test/jobs", code: 200, answer: says{"Warning": `299 - "child pods are preserved by default when ` +
			`jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"`}},
	)
}

// kube-apiserver deletes a collection in pages of ten thousand objects, and answers with all of them and the metadata of the first page.
func TestDeleteCollectionOfManyPages(t *testing.T) {
	a := newAPI(t)
	typ, _ := a.registry.Catalog().Type("configmaps")
	var writes []resources.Write
	for i := range 10_003 {
		name := fmt.Sprintf("c%05d", i)
		draft, err := typ.NewDraft(t.Context(), &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name, Labels: map[string]string{"x": "1"}}})
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, resources.Write{Op: resources.Create, Key: typ.KeyOf("test", name), Draft: draft})
	}
	for some := range slices.Chunk(writes, 1000) {
		if _, err := a.store.Commit(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}
	all := says{"items.#": "10003", "metadata.remainingItemCount": "3"}
	next := "GET " + configMaps + "?continue={next}"
	rest := says{"items.#.metadata.name": `["c10000","c10001","c10002"]`}
	a.run(
		exchange{do: "DELETE " + configMaps + "?dryRun=All", code: 200, says: all, keep: says{"next": "metadata.continue"}},
		exchange{do: next, code: 200, says: rest},
		exchange{do: "DELETE " + configMaps + "?dryRun=All&labelSelector=x%3D1", code: 200, keep: says{"next": "metadata.continue"},
			says: says{"items.#": "10003", "metadata.remainingItemCount": "-"}},
		exchange{do: next, code: 200, says: rest},
		exchange{do: "DELETE " + configMaps + "?dryRun=All&limit=10001", code: 200, says: says{"items.#": "10001", "metadata.remainingItemCount": "2"}},
		exchange{do: "DELETE " + configMaps, code: 200, says: all},
		exchange{do: "GET " + configMaps, code: 200, says: says{"items.#": "0"}},
	)
}

func TestEviction(t *testing.T) {
	pods := "/api/v1/namespaces/test/pods"
	for _, version := range []string{"v1", "v1beta1"} {
		newAPI(t).run(
			exchange{do: "POST " + pods, body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, code: 201},
			exchange{do: "POST " + pods + "/p/eviction", body: `{"kind":"Eviction","apiVersion":"policy/` + version + `","metadata":{"name":"p"}}`, code: 201,
				says: says{"kind": "Status", "status": "Success"}},
			exchange{do: "GET " + pods + "/p", code: 404},
			exchange{do: "POST " + pods + "/p/eviction", body: `{"kind":"Eviction","apiVersion":"policy/v2","metadata":{"name":"p"}}`, code: 400},
		)
	}
}
