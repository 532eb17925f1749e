package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// manifests returns the objects of testdata/types, in the order of files and documents. Namespaced objects name their namespace themselves.
func manifests(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("testdata/types/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.ReplaceAll(string(text), "NAMESPACE", namespace)), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if len(object.Object) > 0 {
				all = append(all, object)
			}
		}
	}
	return all
}

// servedTypes returns the types in discovery that can be created and deleted.
func servedTypes(t *testing.T) map[schema.GroupVersionKind]metav1.APIResource {
	t.Helper()
	_, lists, err := discovery.NewDiscoveryClient(shared.client.Discovery().RESTClient()).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	served := map[schema.GroupVersionKind]metav1.APIResource{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "create") && slices.Contains(r.Verbs, "delete") && !strings.Contains(r.Name, "/") {
				r.Group, r.Version = gv.Group, gv.Version
				served[gv.WithKind(r.Kind)] = r
			}
		}
	}
	return served
}

// TestEveryType takes an object of every built-in type through its life.
func TestEveryType(t *testing.T) {
	served := servedTypes(t)
	namespace := newNamespace(t)
	client, err := dynamic.NewForConfig(shared.config)
	if err != nil {
		t.Fatal(err)
	}
	have := map[schema.GroupVersionKind]bool{}
	for _, manifest := range manifests(t, namespace) {
		gvk := manifest.GroupVersionKind()
		have[gvk] = true
		t.Run(strings.ReplaceAll(gvk.GroupVersion().String(), "/", ".")+"."+gvk.Kind, func(t *testing.T) {
			r, ok := served[gvk]
			if !ok {
				t.Fatalf("%v is not served", gvk)
			}
			l := life{manifest: manifest, resource: r, namespace: namespace}
			l.client = client.Resource(gvk.GroupVersion().WithResource(r.Name))
			if r.Namespaced {
				l.client = client.Resource(gvk.GroupVersion().WithResource(r.Name)).Namespace(namespace)
			}
			l.live(t)
		})
	}
	for gvk := range served {
		if !have[gvk] {
			t.Errorf("testdata/types has no %v", gvk)
		}
	}
}

// busy are the kinds that the server itself writes to soon after they are created (the names of a custom resource are accepted, a flow schema is
// found to be dangling, a migration is performed), so that a test may find them at a later revision than it expects.
var busy = map[string]bool{"CustomResourceDefinition": true, "FlowSchema": true, "APIService": true, "StorageVersionMigration": true,
	"CertificateSigningRequest": true, "ResourceQuota": true, "ValidatingAdmissionPolicy": true, "ClusterRole": true}

// life is the life of one object.
type life struct {
	manifest  *unstructured.Unstructured
	resource  metav1.APIResource
	namespace string
	client    dynamic.ResourceInterface
	events    watch.Interface
}

func (l *life) live(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	before, err := l.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	l.events, err = l.client.Watch(ctx, metav1.ListOptions{
		ResourceVersion: before.GetResourceVersion(),
		FieldSelector:   "metadata.name=" + l.manifest.GetName(),
	})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer l.events.Stop()
	created := l.create(ctx, t)
	defer func() { // after any failure, the next run starts clean
		_ = l.client.Delete(context.WithoutCancel(ctx), created.GetName(), metav1.DeleteOptions{})
	}()
	updated := l.update(ctx, t, created)
	patched := l.patch(ctx, t, updated)
	l.apply(ctx, t, patched)
	l.print(t)
	l.delete(ctx, t)
}

// create creates the object and finds it by get, list and watch.
func (l *life) create(ctx context.Context, t *testing.T) *unstructured.Unstructured {
	created, err := l.client.Create(ctx, l.manifest, metav1.CreateOptions{FieldManager: "creator"})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if stamp := created.GetCreationTimestamp(); created.GetUID() == "" || stamp.IsZero() || created.GetResourceVersion() == "" {
		t.Errorf("created without uid, creationTimestamp or resourceVersion: %v", created.Object["metadata"])
	}
	if got := created.GroupVersionKind(); got != l.manifest.GroupVersionKind() {
		t.Errorf("created as %v", got)
	}
	l.next(t, watch.Added, created)
	got, err := l.client.Get(ctx, created.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	l.same(t, "get", got, created)
	list, err := l.client.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + created.GetName()})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("list by name has %d items", len(list.Items))
	}
	l.same(t, "list", &list.Items[0], created)
	if _, err := l.client.Create(ctx, l.manifest, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create again: %v, want AlreadyExists", err)
	}
	return got
}

// update labels the object by PUT, once with success and once with an old resourceVersion.
func (l *life) update(ctx context.Context, t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	stale := object.DeepCopy()
	object.SetLabels(map[string]string{"e2e": "updated"})
	updated, err := l.client.Update(ctx, object, metav1.UpdateOptions{FieldManager: "updater"})
	for l.busy() && apierrors.IsConflict(err) {
		if object, err = l.client.Get(ctx, object.GetName(), metav1.GetOptions{}); err == nil {
			object.SetLabels(map[string]string{"e2e": "updated"})
			updated, err = l.client.Update(ctx, object, metav1.UpdateOptions{FieldManager: "updater"})
		}
	}
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	l.next(t, watch.Modified, updated)
	list, err := l.client.List(ctx, metav1.ListOptions{LabelSelector: "e2e=updated"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("list by label: %v, %d items", err, len(list.Items))
	}
	stale.SetLabels(map[string]string{"e2e": "stale"})
	if _, err := l.client.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update with an old resourceVersion: %v, want Conflict", err)
	}
	return updated
}

// patch annotates the object by merge patch and by JSON patch.
func (l *life) patch(ctx context.Context, t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	patched := object
	for _, p := range []struct {
		as   types.PatchType
		text string
	}{
		{types.MergePatchType, `{"metadata":{"annotations":{"e2e":"merge"}}}`},
		{types.JSONPatchType, `[{"op":"replace","path":"/metadata/annotations/e2e","value":"json"}]`},
		{types.StrategicMergePatchType, `{"metadata":{"annotations":{"e2e":"strategic"}}}`},
	} {
		var err error
		patched, err = l.client.Patch(ctx, object.GetName(), p.as, []byte(p.text), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("%s: %v", p.as, err)
		}
		l.next(t, watch.Modified, patched)
	}
	if got := patched.GetAnnotations()["e2e"]; got != "strategic" {
		t.Errorf("annotation is %q after the patches", got)
	}
	return patched
}

// apply takes the manifest over with kubectl apply --server-side.
func (l *life) apply(ctx context.Context, t *testing.T, object *unstructured.Unstructured) {
	manifest := l.manifest.DeepCopy()
	manifest.SetLabels(map[string]string{"e2e": "applied"})
	text, err := json.Marshal(manifest.Object)
	if err != nil {
		t.Fatal(err)
	}
	k := kubectl{namespace: l.kubectlNamespace(), stdin: string(text)}
	out := k.run(t, "apply", "--server-side", "--force-conflicts", "--field-manager=applier", "-f", "-")
	wants(t, out, object.GetName()+" serverside-applied")
	applied, err := l.client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	l.next(t, watch.Modified, applied)
	if !slices.ContainsFunc(applied.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "applier" && f.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("applier manages nothing: %v", applied.GetManagedFields())
	}
}

// print shows the object with kubectl as a table, wide, as YAML and described, and explains its type.
func (l *life) print(t *testing.T) {
	k := kubectl{namespace: l.kubectlNamespace()}
	resource := l.resource.Name + "." + l.resource.Version + "." + l.resource.Group
	if l.resource.Group == "" {
		resource = l.resource.Name
	}
	name := l.manifest.GetName()
	wants(t, k.run(t, "get", resource, name, "-o", "wide"), "NAME", name)
	wants(t, k.run(t, "get", resource, name, "-o", "yaml"), "kind: "+l.resource.Kind, "  name: "+name)
	wants(t, k.run(t, "describe", resource, name), name)
	explained := k.run(t, "explain", l.resource.Name, "--api-version", l.manifest.GetAPIVersion())
	wants(t, explained, "KIND:       "+l.resource.Kind, "VERSION:    "+l.resource.Version, "DESCRIPTION:", "FIELDS:", "  metadata\t<ObjectMeta>")
}

// delete deletes the object. If a finalizer remains, this test removes it, since no controller does.
func (l *life) delete(ctx context.Context, t *testing.T) {
	name := l.manifest.GetName()
	if err := l.client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	l.finalize(ctx, t, name)
	for {
		event := l.event(t)
		if event.Type == watch.Modified {
			continue // its deletionTimestamp, its finalizers
		}
		if event.Type != watch.Deleted {
			t.Errorf("%s, want DELETED", event.Type)
		}
		break
	}
	if _, err := l.client.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete: %v, want NotFound", err)
	}
}

func (l *life) finalize(ctx context.Context, t *testing.T, name string) {
	left, err := l.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return // gone
	}
	if left.GetDeletionTimestamp() == nil {
		t.Errorf("deleted without deletionTimestamp: %v", left.Object["metadata"])
	}
	if len(left.GetFinalizers()) > 0 {
		_, err := l.client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("remove the finalizers: %v", err)
		}
	}
	if l.resource.Kind == "Namespace" {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q},"spec":{"finalizers":[]}}`, name)
		err := shared.client.CoreV1().RESTClient().Verb(http.MethodPut).AbsPath("/api/v1/namespaces/"+name+"/finalize").
			SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("finalize: %v", err)
		}
	}
}

// next requires that the next event has this type and this state of the object.
func (l *life) next(t *testing.T, kind watch.EventType, object *unstructured.Unstructured) {
	t.Helper()
	event := l.event(t)
	for l.busy() && event.Type == watch.Modified && event.Object.(*unstructured.Unstructured).GetResourceVersion() != object.GetResourceVersion() {
		event = l.event(t)
	}
	if event.Type != kind {
		t.Fatalf("%s, want %s: %v", event.Type, kind, event.Object)
	}
	same(t, string(kind), event.Object.(*unstructured.Unstructured), object)
}

// busy says whether another client may have written the object meanwhile.
func (l *life) busy() bool { return busy[l.resource.Kind] }

// same fails the test unless both are the same state of the object.
func (l *life) same(t *testing.T, how string, got, want *unstructured.Unstructured) {
	t.Helper()
	if !l.busy() {
		same(t, how, got, want)
	}
}

func (l *life) event(t *testing.T) watch.Event {
	t.Helper()
	select {
	case event, ok := <-l.events.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return event
	case <-time.After(patience):
		t.Fatal("no event")
	}
	panic("unreachable")
}

func (l *life) kubectlNamespace() string {
	if l.resource.Namespaced {
		return l.namespace
	}
	return ""
}
