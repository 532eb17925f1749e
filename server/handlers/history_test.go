package handlers_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/history"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

const (
	histories   = "/apis/history.rowlock.dev/v1"
	shopHistory = histories + "/namespaces/shop"
	shopMaps    = "/api/v1/namespaces/shop/configmaps"
)

// onHistories runs a test on servers that keep and serve an object history.
func onHistories(t *testing.T, test func(t *testing.T, a *api)) {
	o := sqlstore.Options{ObjectHistory: sqlstore.ObjectHistory{Age: time.Hour}}
	servertest.OnBothDatabases(t, o, func(t *testing.T, store *sqlstore.Store) {
		a := newServer(t, utilfeature.DefaultMutableFeatureGate.DeepCopy(), store)
		a.run(exchange{do: "GET " + histories, code: 404}, exchange{do: "GET " + histories + "/clustertrash", code: 404})
		a.registry.SetGroup(history.Config{Historian: store, Authorizer: authorizer.AuthorizerFunc(a.Authorize), Scheme: builtin.Scheme}.Group())
		a.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"shop"}}`, code: 201},
			exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"test"}}`, code: 201})
		test(t, a)
	})
}

// of is a field selector for the history of an object.
func of(resource, name string) string {
	return "?fieldSelector=object.resource%3D" + resource + "%2Cobject.name%3D" + name
}

// The history of an object is a list, the last write first. Each write can be read with the object before and after it, once it was acknowledged.
// It is read-only.
func TestHistoryOfAnObject(t *testing.T) {
	onHistories(t, func(t *testing.T, a *api) {
		revisions := "GET " + shopHistory + "/revisions"
		a.run(
			exchange{do: "POST " + shopMaps, body: `{"metadata":{"name":"a"},"data":{"v":"1"}}`, code: 201},
			exchange{do: "PATCH " + shopMaps + "/a", header: asMergePatch, body: `{"data":{"v":"2"}}`, code: 200, keep: says{"rv": "metadata.resourceVersion", "uid": "metadata.uid"}},
			exchange{do: revisions + of("configmaps", "a"), code: 200, says: says{"kind": "RevisionList", "items.#.operation": `["Update","Create"]`,
				"items.0.metadata.name": "{rv}", "items.0.metadata.namespace": "shop", "items.0.object.uid": "{uid}", "items.0.requester.user": "admin",
				"items.0.requester.verb": "patch", "items.0.requester.userAgent": "test/1", "items.0.paths": `["data.v"]`, "items.0.state": "-"}},
			exchange{do: revisions + "/{rv}", code: 200, says: says{"kind": "Revision", "apiVersion": "history.rowlock.dev/v1",
				"state.before.data.v": "1", "state.after.data.v": "2", "state.after.metadata.managedFields": "-"}},
			exchange{do: "DELETE " + shopMaps + "/a", code: 200},
			exchange{do: "POST " + shopMaps, body: `{"metadata":{"name":"a"},"data":{"v":"3"}}`, code: 201, keep: says{"now": "metadata.uid"}},
			exchange{shows: "all of the name", do: revisions + of("configmaps", "a"), code: 200, says: says{"items.#.operation": `["Create","Delete","Update","Create"]`}},
			exchange{shows: "those of one object", do: revisions + of("configmaps", "a") + "%2Cobject.uid%3D{now}", code: 200, says: says{"items.#.operation": `["Create"]`}},
			exchange{shows: "what is not asked of the database", do: revisions + of("configmaps", "a") + "%2Coperation%21%3DCreate", code: 200,
				says: says{"items.#.operation": `["Delete","Update"]`}},
			exchange{do: "GET " + shopHistory + "/trash" + of("configmaps", "a"), code: 200, keep: says{"gone": "items.0.metadata.name"},
				says: says{"kind": "DeletedObjectList", "items.#.operation": `["Delete"]`, "items.0.object.uid": "{uid}"}},
			exchange{do: "GET " + shopHistory + "/trash/{gone}", code: 200, says: says{"kind": "DeletedObject", "state.after.data.v": "2"}},
			exchange{shows: "that is no deletion", do: "GET " + shopHistory + "/trash/{rv}", code: 404},
			exchange{shows: "that is in another namespace", do: "GET " + histories + "/namespaces/test/revisions/{rv}", code: 404},
			exchange{do: revisions + "/+{rv}", code: 404},
			exchange{do: revisions + "/x", code: 404, says: says{"message": `revisions.history.rowlock.dev "x" not found`}},
			exchange{do: "GET " + histories + "/clusterrevisions" + of("namespaces", "shop"), code: 200, says: says{"items.#.operation": `["Create"]`, "items.0.object.name": "shop"}},
			exchange{shows: "in all namespaces, and only there", do: "GET " + histories + "/revisions", code: 200, says: says{"items.#(metadata.namespace==\"\")": "-"}},
			exchange{do: revisions + "?fieldSelector=object.color%3Dred", code: 400, says: says{"message": "field label not supported: object.color"}},
			exchange{do: revisions + "?watch=1", code: 405},
			exchange{do: "POST " + shopHistory + "/revisions", body: `{}`, code: 405},
			exchange{do: "DELETE " + shopHistory + "/trash/{gone}", code: 405},
			exchange{do: "DELETE " + shopHistory + "/trash", code: 405},
		)
	})
}

// A list with a limit continues where it ended, despite writes meanwhile.
func TestHistoryInPages(t *testing.T) {
	onHistories(t, func(t *testing.T, a *api) {
		write := func(verb, v string, code int) {
			path, header := shopMaps, says{}
			if verb == "PATCH" {
				path, header = shopMaps+"/a", asMergePatch
			}
			a.run(exchange{do: verb + " " + path, header: header, body: `{"metadata":{"name":"a"},"data":{"v` + v + `":"x"}}`, code: code})
		}
		write("POST", "1", 201)
		write("PATCH", "2", 200)
		write("PATCH", "3", 200)
		list := "GET " + shopHistory + "/revisions" + of("configmaps", "a")
		a.run(exchange{do: list + "&limit=2", code: 200, keep: says{"next": "metadata.continue"}, says: says{"items.#.paths.0": `["data.v3","data.v2"]`}})
		write("PATCH", "4", 200)
		a.run(
			exchange{do: list + "&limit=2&continue={next}", code: 200, says: says{"items.#.operation": `["Create"]`, "metadata.continue": ""}},
			exchange{do: list + "&limit=4", code: 200, says: says{"items.#": "4", "metadata.continue": ""}},
			exchange{do: list + "&limit=2&continue=eA", code: 400, says: says{"message": "invalid continue token"}},
			exchange{do: "GET " + shopHistory + "/revisions?limit=1", header: says{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, code: 200,
				keep: says{"next": "metadata.continue"},
				says: says{"columnDefinitions.#.name": `["Name","Resource","Object","Operation","User","Age","Paths","Agent"]`,
					"rows.0.cells.1": "configmaps", "rows.0.cells.2": "a", "rows.0.cells.3": "Update", "rows.0.cells.4": "admin", "rows.0.cells.6": `["data.v4"]`}},
		)
	})
}

// A page has as many selected entries as its limit, even if the database cannot evaluate the selector.
func TestHistoryInFullPages(t *testing.T) {
	onHistories(t, func(t *testing.T, a *api) {
		a.run(exchange{do: "POST " + shopMaps, body: `{"metadata":{"name":"a"},"data":{"v":"1"}}`, code: 201})
		for i := range 5 {
			a.run(exchange{do: "PATCH " + shopMaps + "/a", header: asMergePatch, body: fmt.Sprintf(`{"data":{"v":"x%d"}}`, i), code: 200},
				exchange{do: "PATCH /api/v1/namespaces/shop", header: asMergePatch, body: fmt.Sprintf(`{"metadata":{"labels":{"v":"x%d"}}}`, i), code: 200})
		}
		created := "GET " + shopHistory + "/revisions?fieldSelector=operation%3DCreate&limit="
		a.run(
			exchange{shows: "beyond those that are not selected", do: created + "1", code: 200, says: says{"items.#.object.name": `["a"]`, "metadata.continue": ""}},
			exchange{shows: "the end", do: created + "2", code: 200, says: says{"items.#.object.name": `["a"]`, "metadata.continue": ""}},
			exchange{shows: "beyond those of another scope", do: "GET " + histories + "/revisions?limit=2", code: 200,
				keep: says{"next": "metadata.continue"}, says: says{"items.#.paths.0": `["data.v","data.v"]`}},
			exchange{shows: "the rest", do: "GET " + histories + "/revisions?limit=4&continue={next}", code: 200, says: says{"items.#.operation": `["Update","Update","Update","Create"]`}},
		)
	})
}

// full is a store on a full disk.
type full struct{ *sqlstore.Store }

func (full) RecordHistory(context.Context) error {
	return fmt.Errorf("%w: %w", resources.ErrUnavailable, resources.ErrFull)
}

// On a full disk the history is returned as far as it goes, with a warning.
func TestHistoryOnAFullDisk(t *testing.T) {
	servertest.OnBothDatabases(t, sqlstore.Options{ObjectHistory: sqlstore.ObjectHistory{Age: time.Hour}}, func(t *testing.T, store *sqlstore.Store) {
		a := newServer(t, utilfeature.DefaultMutableFeatureGate.DeepCopy(), store)
		a.registry.SetGroup(history.Config{Historian: full{store}, Authorizer: authorizer.AuthorizerFunc(a.Authorize), Scheme: builtin.Scheme}.Group())
		a.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"shop"}}`, code: 201},
			exchange{do: "POST " + shopMaps, body: `{"metadata":{"name":"a"}}`, code: 201, keep: says{"rv": "metadata.resourceVersion"}})
		if err := store.RecordHistory(t.Context()); err != nil {
			t.Fatal(err)
		}
		warned := says{"Warning": `299 - "the disk of the database is full: the last writes may be missing in the object history"`}
		a.run(
			exchange{do: "GET " + shopHistory + "/revisions", code: 200, says: says{"items.#.metadata.name": `["{rv}"]`}, answer: warned},
			exchange{do: "GET " + shopHistory + "/revisions/{rv}", code: 200, answer: says{"Warning": ""}},
			exchange{do: "GET " + shopHistory + "/revisions/99999999", code: 404, answer: warned},
		)
	})
}

// A user with access to the history sees only objects that they may read: the rights are those for reading the objects.
func TestHistoryIsForThoseWhoMayReadTheObjects(t *testing.T) {
	onHistories(t, func(t *testing.T, a *api) {
		a.run(exchange{do: "POST " + shopMaps, body: `{"metadata":{"name":"a"},"data":{"v":"1"}}`, code: 201, keep: says{"rv": "metadata.resourceVersion"}})
		var asked authorizer.Attributes
		a.authorize = func(_ context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
			if at.GetAPIGroup() == history.GroupName {
				return authorizer.DecisionAllow, "", nil
			}
			asked = at
			return authorizer.DecisionNoOpinion, "", nil
		}
		for path, want := range map[string]string{
			shopHistory + "/revisions" + of("configmaps", "a"):                         "get /configmaps a in shop",
			shopHistory + "/trash?fieldSelector=object.resource%3Ddeployments.apps":    "list apps/deployments  in shop",
			shopHistory + "/trash?fieldSelector=object.resource%21%3Ddeployments.apps": "list */*  in shop",
			histories + "/trash": "list */*  in ",
			histories + "/clusterrevisions" + of("namespaces", "shop"):                      "get /namespaces shop in shop",
			histories + "/clusterrevisions?fieldSelector=object.resource%3Dnamespaces":      "list /namespaces  in ",
			histories + "/trash?fieldSelector=metadata.namespace%3Dshop":                    "list */*  in shop",
			histories + "/clustertrash?fieldSelector=object.resource%3Dwidgets.example.com": "list example.com/widgets  in ",
		} {
			w := a.send(exchange{do: "GET " + path})
			group := asked.GetAPIGroup() + "/" + asked.GetResource()
			if got := asked.GetVerb() + " " + group + " " + asked.GetName() + " in " + asked.GetNamespace(); got != want || w.Code != http.StatusForbidden ||
				!asked.IsResourceRequest() || asked.GetUser().GetName() != "admin" {
				t.Errorf("%s: asked for %q, want %q; %d %s", path, got, want, w.Code, w.Body)
			}
		}
		// mayOnly is a user with these rights to the ConfigMaps of a namespace, and access to all of the history.
		mayOnly := func(verbs ...string) {
			a.authorize = func(_ context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
				if at.GetAPIGroup() == history.GroupName || at.GetResource() == "configmaps" && at.GetNamespace() == "shop" && slices.Contains(verbs, at.GetVerb()) {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionDeny, "", nil
			}
		}
		one, all := "GET "+shopHistory+"/revisions"+of("configmaps", "a"), "GET "+shopHistory+"/revisions?fieldSelector=object.resource%3Dconfigmaps"
		mayOnly("get")
		a.run(exchange{do: one, code: 200, says: says{"items.#": "1"}}, exchange{do: "GET " + shopHistory + "/revisions/{rv}", code: 200, says: says{"object.name": "a"}},
			exchange{shows: "names of others", do: all, code: 403, says: says{"message": `revisions.history.rowlock.dev is forbidden: User "admin" cannot read this: ` +
				`they have to be allowed to list configmaps in the namespace "shop"`}},
			exchange{do: "GET " + shopHistory + "/trash", code: 403, says: says{"message": `trash.history.rowlock.dev is forbidden: User "admin" cannot read this: ` +
				`they have to be allowed to list all resources in the namespace "shop", as the field selector has no object.resource`}},
			exchange{do: "GET " + histories + "/revisions" + of("configmaps", "a"), code: 403},
			exchange{do: "GET " + shopHistory + "/revisions" + of("secrets", "a"), code: 403})
		mayOnly("list")
		a.run(exchange{do: one, code: 403}, exchange{do: "GET " + shopHistory + "/revisions/{rv}", code: 404}, exchange{do: all, code: 403})
		mayOnly("list", "get")
		a.run(exchange{do: all, code: 200, says: says{"items.#": "1"}})
	})
}

// spy records the queries of the history.
type spy struct {
	resources.Historian
	asked []string
}

func (s *spy) RecordHistory(ctx context.Context) error {
	s.asked = append(s.asked, "to record")
	return s.Historian.RecordHistory(ctx)
}

func (s *spy) ObjectHistory(ctx context.Context, q resources.RevisionQuery) ([]resources.Revision, bool, error) {
	if q.Objects {
		s.asked = append(s.asked, "for objects")
	}
	return s.Historian.ObjectHistory(ctx, q)
}

// A user who may not get an object cannot distinguish its writes from missing ones; for such a request no object is loaded, and the audit records
// none.
func TestHistoryIsNotProbed(t *testing.T) {
	onHistories(t, func(t *testing.T, a *api) {
		s := &spy{Historian: a.store.Store.(*sqlstore.Store)}
		a.registry.SetGroup(history.Config{Historian: s, Authorizer: authorizer.AuthorizerFunc(a.Authorize), Scheme: builtin.Scheme}.Group())
		a.run(exchange{do: "POST " + shopMaps, body: `{"metadata":{"name":"a"},"data":{"v":"1"}}`, code: 201, keep: says{"rv": "metadata.resourceVersion"}},
			exchange{shows: "as soon as it was acknowledged", do: "GET " + shopHistory + "/revisions/{rv}", code: 200, says: says{"state.after.data.v": "1"}})
		if !slices.Contains(s.asked, "for objects") {
			t.Errorf("for who may get it, the history is asked %q", s.asked)
		}
		a.run(exchange{do: "GET /api/v1/namespaces/shop", code: 200, keep: says{"ns": "metadata.resourceVersion"}})
		s.asked = nil
		var asked string
		a.authorize = func(_ context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
			if at.GetAPIGroup() == history.GroupName {
				return authorizer.DecisionAllow, "", nil
			}
			asked = at.GetVerb() + " " + at.GetAPIGroup() + "/" + at.GetResource() + " " + at.GetName() + " in " + at.GetNamespace()
			return authorizer.DecisionNoOpinion, "", nil
		}
		answer := func(revision string) string {
			t.Helper()
			w := a.send(exchange{do: "GET " + shopHistory + "/revisions/" + revision})
			return http.StatusText(w.Code) + strings.ReplaceAll(w.Body.String(), revision, "R")
		}
		there := answer(a.kept["rv"])
		if want := "get /configmaps a in shop"; asked != want || len(s.asked) > 0 {
			t.Errorf("the right that is asked for is to %q, want %q; the history is asked %q", asked, want, s.asked)
		}
		if missing := answer("999999999"); there != missing || !strings.Contains(missing, "not found") {
			t.Errorf("of what is there it says %s, of what is not %s", there, missing)
		}
		a.run(exchange{do: "GET " + histories + "/clusterrevisions/{ns}", code: 404})
		if want := "get /namespaces shop in shop"; asked != want {
			t.Errorf("for a namespace, the right that is asked for is to %q, want %q", asked, want)
		}
	})
}

// The history keeps custom resources whose definition is gone, and objects of a deleted namespace.
func TestHistoryOfWhatIsNotServed(t *testing.T) {
	onHistories(t, func(t *testing.T, a *api) {
		a.work()
		in := func(path string) string { return strings.Replace(path, "/test/", "/shop/", 1) }
		gone := func(resource, path string) {
			t.Helper()
			a.run(exchange{do: "DELETE " + path, code: 200})
			a.until(resource, path+" is gone", func() bool { return a.send(exchange{do: "GET " + path}).Code == http.StatusNotFound })
		}
		a.run(
			exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
			exchange{do: "POST " + in(widgets), body: widget("w", `{"size":2}`), code: 201, keep: says{"uid": "metadata.uid"}},
			exchange{do: "POST " + shopMaps, body: `{"metadata":{"name":"a"},"data":{"v":"1"}}`, code: 201},
		)
		gone("customresourcedefinitions.apiextensions.k8s.io", definitions+"/widgets.example.com")
		a.run(
			exchange{do: "GET " + in(widgets) + "/w", code: 404},
			exchange{do: "GET " + shopHistory + "/revisions" + of("widgets.example.com", "w") + "%2Coperation%3DCreate", code: 200, says: says{"items.#.object.uid": `["{uid}"]`}},
			exchange{do: "GET " + shopHistory + "/trash" + of("widgets.example.com", "w"), code: 200, keep: says{"gone": "items.0.metadata.name"}},
			exchange{do: "GET " + shopHistory + "/trash/{gone}", code: 200, says: says{"state.after.spec.size": "2", "state.after.kind": "Widget"}},
			exchange{do: "GET " + histories + "/clustertrash" + of("customresourcedefinitions.apiextensions.k8s.io", "widgets.example.com"), code: 200, says: says{"items.#": "1"}},
		)
		gone("namespaces", "/api/v1/namespaces/shop")
		a.run(
			exchange{do: "GET " + shopHistory + "/trash" + of("configmaps", "a"), code: 200, keep: says{"map": "items.0.metadata.name"}},
			exchange{do: "GET " + shopHistory + "/trash/{map}", code: 200, says: says{"state.after.data.v": "1"}},
			exchange{do: "GET " + histories + "/clustertrash" + of("namespaces", "shop"), code: 200, says: says{"items.#": "1"}},
		)
	})
}

// Discovery and OpenAPI describe the group with its verbs and types, and have nothing of it if it is not served.
func TestHistoryIsDescribed(t *testing.T) {
	onHistories(t, func(t *testing.T, a *api) {
		a.run(
			exchange{do: "GET " + histories, code: 200, says: says{"resources.#.name": `["clusterrevisions","clustertrash","revisions","trash"]`,
				"resources.0.verbs": `["get","list"]`, "resources.0.storageVersionHash": "-", "resources.3.kind": "DeletedObject"}},
			exchange{do: "GET /apis", header: says{"Accept": "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"}, code: 200,
				says: says{`items.#(metadata.name=="history.rowlock.dev").versions.0.resources.#.resource`: `["clusterrevisions","clustertrash","revisions","trash"]`}},
			exchange{do: "GET /openapi/v3/apis/history.rowlock.dev/v1", code: 200, keep: says{"document": "@this"}},
			exchange{do: "GET /openapi/v2", code: 200, says: says{`definitions.dev\.rowlock\.history\.v1\.Revision.properties.object.properties.uid.type`: "string"}},
		)
		paths := gjson.Get(a.kept["document"], "paths")
		operations := 0
		paths.ForEach(func(path, item gjson.Result) bool {
			item.ForEach(func(method, _ gjson.Result) bool {
				if strings.HasPrefix(path.Str, histories+"/") && method.Str != "parameters" {
					if operations++; method.Str != "get" {
						t.Errorf("%s %s is described", method, path)
					}
				}
				return true
			})
			return true
		})
		if operations != 10 { // a list and a read of each type, and lists of all namespaces
			t.Errorf("%d operations: %s", operations, paths)
		}
	})
}
