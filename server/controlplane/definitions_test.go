package controlplane_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/rowlock/rowlock/resources"
)

const (
	definitions   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgets       = "/apis/example.com/v1/namespaces/default/widgets"
	widgetService = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com"
)

const widgetDefinition = `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

func definitionKey(name string) resources.Key {
	return resources.Key{Resource: "customresourcedefinitions.apiextensions.k8s.io", Name: name}
}

func condition(o *resources.Object, typ string) gjson.Result {
	return gjson.GetBytes(o.Data, `status.conditions.#(type=="`+typ+`")`)
}

// A definition is deleted with its objects, whose finalizers are honoured; a later definition with the same name has none of them.
func TestDefinitionsGoWithTheirObjects(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, f fleet) {
		for _, k := range f.servers {
			k.T = t
			k.keep(k.services())
		}
		create := func(finalizers string) {
			f.send("POST", definitions, widgetDefinition, 201)
			f.send("POST", widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, 201)
			f.send("POST", widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b","finalizers":[`+finalizers+`]}}`, 201)
		}
		key, service := definitionKey("widgets.example.com"), resources.Key{Resource: "apiservices.apiregistration.k8s.io", Name: "v1.example.com"}
		create(`"example.com/stay"`)
		f.send("GET", widgetService, "", 200)
		answer := f.send("DELETE", definitions+"/widgets.example.com?propagationPolicy=Foreground", "", 200)
		if got := answer.Get("metadata.finalizers").Raw; got != `["customresourcecleanup.apiextensions.k8s.io"]` {
			t.Errorf("finalizers: %s", got)
		}
		f.send("POST", widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"c"}}`, 403)
		f.until("a definition that waits", key, func(o *resources.Object) bool {
			return condition(o, "Terminating").Get("reason").Str == "InstanceDeletionInProgress"
		})
		f.gone(resources.Key{Resource: "widgets.example.com", Namespace: "default", Name: "a"})
		f.send("GET", widgets+"/b", "", 200)
		f.send("PATCH", widgets+"/b", `{"metadata":{"finalizers":null}}`, 200)
		f.gone(key)
		f.send("GET", widgets, "", 404)
		f.gone(service)

		create("")
		since := f.revision()
		f.send("DELETE", widgetService, "", 200)
		f.until("an APIService that comes back", service, func(o *resources.Object) bool { return o != nil })
		f.send("DELETE", definitions+"/widgets.example.com", "", 200)
		f.gone(key)
		f.gone(service)
		f.endsInProgress(key, since)

		// A client removes the finalizer before the objects are gone.
		create(`"example.com/stay"`)
		f.send("DELETE", definitions+"/widgets.example.com", "", 200)
		f.send("PATCH", definitions+"/widgets.example.com", `{"metadata":{"finalizers":null}}`, 200)
		f.gone(key)
		f.send("POST", definitions, widgetDefinition, 201)
		if n := f.send("GET", widgets, "", 200).Get("items.#").Int(); n != 0 {
			t.Errorf("%d objects came again", n)
		}
	})
}

// revision returns the latest revision.
func (f fleet) revision() int64 {
	f.Helper()
	now, err := f.servers[0].store.Snapshot(f.Context(), "namespaces", resources.At{Match: resources.MostRecent})
	if err != nil {
		f.Fatal(err)
	}
	return now.Revision()
}

// endsInProgress checks the events of a deleted definition: its deletion began, and was in progress to its end.
func (f fleet) endsInProgress(key resources.Key, since int64) {
	f.Helper()
	w, err := f.servers[0].store.Watch(f.Context(), resources.WatchOptions{Resource: key.Resource, Name: key.Name, After: since})
	if err != nil {
		f.Fatal(err)
	}
	defer w.Close()
	events, _, err := w.Next(f.Context(), 1000)
	if err != nil {
		f.Fatal(err)
	}
	var seen []string
	for _, e := range events {
		seen = append(seen, condition(e.Object, "Terminating").Get("reason").Str)
	}
	want := []string{"InstanceDeletionPending", "InstanceDeletionInProgress", "InstanceDeletionInProgress"}
	if !slices.Equal(seen, want) || events[len(events)-1].Op != resources.Delete {
		f.Errorf("the deletion of %s was seen as %q, want %q", key, seen, want)
	}
}

// refusingDeletes is an admission plugin that refuses every deletion of a custom resource, as a webhook with failurePolicy Fail does
// whose server is gone.
type refusingDeletes struct{}

func (refusingDeletes) Handles(op admission.Operation) bool { return op == admission.Delete }

func (refusingDeletes) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().Group != "example.com" {
		return nil
	}
	return apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": service "none" not found`))
}

// A definition is deleted with its objects although admission refuses to delete any of them.
func TestDefinitionsGoThoughAWebhookIsDown(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, f fleet) {
		for _, k := range f.servers {
			k.T = t
			k.pipeline.Use(refusingDeletes{}, k.registry)
			k.keep(k.services())
		}
		f.send("POST", definitions, widgetDefinition, 201)
		f.send("POST", widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, 201)
		f.send("DELETE", widgets+"/a", "", 500)
		f.send("DELETE", definitions+"/widgets.example.com", "", 200)
		f.gone(definitionKey("widgets.example.com"), resources.Key{Resource: "widgets.example.com", Namespace: "default", Name: "a"})
	})
}

// refusingStatus is an admission plugin that refuses some updates of the status of definitions, with codes that an object has which is gone.
type refusingStatus struct{ left atomic.Int64 }

func (*refusingStatus) Handles(op admission.Operation) bool { return op == admission.Update }

func (r *refusingStatus) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().Resource != "customresourcedefinitions" || a.GetSubresource() != "status" {
		return nil
	}
	left := r.left.Add(-1)
	if left < 0 {
		return nil
	}
	return webhookerrors.ToStatusErr("later.example.com", &metav1.Status{Code: []int32{404, 409}[left%2], Message: "not now"})
}

// A definition goes although a webhook refuses the writes of its end for a while, as if it was gone already.
func TestDefinitionsGoThoughRefused(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, f fleet) {
		refuses := &refusingStatus{}
		for _, k := range f.servers {
			k.T = t
			k.pipeline.Use(refuses, k.registry)
			k.keep(k.services())
		}
		f.send("POST", definitions, widgetDefinition, 201)
		refuses.left.Store(2)
		f.send("DELETE", definitions+"/widgets.example.com", "", 200)
		f.gone(definitionKey("widgets.example.com"))
		if refuses.left.Load() >= 0 {
			t.Error("not enough was refused")
		}
	})
}

// The deletion of a definition with the name of a built-in type, which only an import can have stored, leaves the type and its objects.
func TestDefinitionsOfBuiltInTypesGoAlone(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, f fleet) {
		for _, k := range f.servers {
			k.T = t
			k.keep(k.services())
		}
		for _, c := range []struct{ group, plural, kind, version, list string }{
			{"apiregistration.k8s.io", "apiservices", "APIService", "v1", "/apis/apiregistration.k8s.io/v1/apiservices"},
			{"apiregistration.k8s.io", "apiservices", "APIService", "v9", "/apis/apiregistration.k8s.io/v1/apiservices"},
			{"apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "v1", definitions},
			{"rbac.authorization.k8s.io", "clusterroles", "ClusterRole", "v1", "/apis/rbac.authorization.k8s.io/v1/clusterroles"},
		} {
			name := c.plural + "." + c.group
			draft, ok := resources.DraftOf([]byte(strings.NewReplacer("{group}", c.group, "{plural}", c.plural, "{Kind}", c.kind, "{version}", c.version).Replace(importedDefinition)))
			if !ok {
				t.Fatal("no draft")
			}
			if _, err := f.servers[0].store.Commit(t.Context(), resources.Write{Op: resources.Create, Key: definitionKey(name), Draft: draft}); err != nil {
				t.Fatal(err)
			}
			f.until("the definition", definitionKey(name), func(o *resources.Object) bool { return o != nil })
			names := func() (all []string) { // without those that come and go with the definition
				for _, o := range f.send("GET", c.list, "", 200).Get("items.#.metadata.name").Array() {
					if o.Str != name && o.Str != "v9."+c.group {
						all = append(all, o.Str)
					}
				}
				return all
			}
			before := names()
			f.send("DELETE", definitions+"/"+name, "", 200)
			f.gone(definitionKey(name))
			if got := names(); !slices.Equal(got, before) {
				t.Errorf("%s in %s: the list has %q, want %q", name, c.version, got, before)
			}
		}
	})
}

// importedDefinition is an established definition in its stored form.
const importedDefinition = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"{plural}.{group}","uid":"8d5e22a9-9f1c-4d8e-a2d5-1a5b1e0b7c11",
	"resourceVersion":"0","generation":1,"creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"group":"{group}","scope":"Cluster","conversion":{"strategy":"None"},
	"names":{"plural":"{plural}","singular":"{plural}","kind":"{Kind}","listKind":"{Kind}List"},
	"versions":[{"name":"{version}","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]},
	"status":{"storedVersions":["{version}"],"acceptedNames":{"plural":"{plural}","singular":"{plural}","kind":"{Kind}","listKind":"{Kind}List"},
	"conditions":[{"type":"NamesAccepted","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"NoConflicts","message":"no conflicts found"},
		{"type":"Established","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"InitialNamesAccepted","message":"the initial names have been accepted"}]}}`

// A definition that was never served has no objects to delete; its deletion has the same events as others.
func TestDefinitionsThatWereNeverServedGo(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, f fleet) {
		for _, k := range f.servers {
			k.T = t
			k.keep(k.services())
		}
		f.send("POST", definitions, widgetDefinition, 201)
		f.send("POST", definitions, strings.NewReplacer("widgets", "gadgets").Replace(widgetDefinition), 201)
		since, key := f.revision(), definitionKey("gadgets.example.com")
		f.send("DELETE", definitions+"/gadgets.example.com", "", 200)
		f.gone(key)
		f.endsInProgress(key, since)
	})
}

// A definition whose names are taken is served when they become free.
func TestNamesThatBecomeFree(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, f fleet) {
		for _, k := range f.servers {
			k.T = t
			k.keep(k.services())
		}
		f.send("POST", definitions, widgetDefinition, 201)
		second := strings.NewReplacer("widgets", "gadgets").Replace(widgetDefinition)
		if got := f.send("POST", definitions, second, 201).Get(`status.conditions.#(type=="NamesAccepted").status`).Str; got != "False" {
			t.Errorf("names accepted: %s", got)
		}
		f.send("GET", strings.Replace(widgets, "widgets", "gadgets", 1), "", 404)
		f.send("DELETE", definitions+"/widgets.example.com", "", 200)
		f.until("a definition that is served", definitionKey("gadgets.example.com"), func(o *resources.Object) bool {
			return condition(o, "Established").Get("status").Str == "True"
		})
		f.send("GET", strings.Replace(widgets, "widgets", "gadgets", 1), "", 200)
		f.send("GET", widgetService, "", 200)
	})
}
