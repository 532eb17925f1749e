package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// typedClient uses the typed client.
func typedClient(t *testing.T, client kubernetes.Interface, namespace string) {
	ctx := t.Context()
	configMaps := client.CoreV1().ConfigMaps(namespace)
	generated, err := configMaps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"}, BinaryData: map[string][]byte{"bytes": {0, 1, 255}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(generated.Name) != len("made-")+5 {
		t.Errorf("generated name %q", generated.Name)
	}
	got, err := configMaps.Get(ctx, generated.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(generated, got); diff != "" {
		t.Errorf("get differs from create (-create +get):\n%s", diff)
	}
	applied, err := configMaps.Apply(ctx, applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1"}),
		metav1.ApplyOptions{FieldManager: "e2e"})
	if err != nil || applied.Data["a"] != "1" {
		t.Errorf("apply: %v, %v", applied, err)
	}
	deployments := client.AppsV1().Deployments(namespace)
	labels := map[string]string{"app": "web"}
	deployment, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/web"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if deployment.Generation != 1 || *deployment.Spec.Replicas != 1 || deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("not defaulted: generation %d, spec %+v", deployment.Generation, deployment.Spec)
	}
	scale, err := deployments.UpdateScale(ctx, "web", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 3},
	}, metav1.UpdateOptions{})
	if err != nil || scale.Spec.Replicas != 3 || scale.Status.Selector != "app=web" {
		t.Errorf("scale: %+v, %v", scale, err)
	}
	deployment.ResourceVersion = ""
	deployment.Status.Replicas = 2
	deployment.Spec.Paused = true // the status update must not change it
	updated, err := deployments.UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
	if err != nil || updated.Status.Replicas != 2 || updated.Spec.Paused || updated.Generation != 2 {
		t.Errorf("status: generation %d, %+v, %+v, %v", updated.Generation, updated.Status, updated.Spec, err)
	}
	if err := configMaps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=applied"}); err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.Get(ctx, "applied", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion of a collection: %v", err)
	}
	if _, err := configMaps.Get(ctx, generated.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the selector has not held the deletion back: %v", err)
	}
}

// TestPages lists in pages while objects are created and deleted; the pages are of one revision.
func TestPages(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	secrets := shared.client.CoreV1().Secrets(namespace) // no other test creates any
	const count = 25
	create := func(name string) {
		t.Helper()
		if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		create(fmt.Sprintf("page-%02d", i))
	}
	pages := 0
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list, err := secrets.List(ctx, o)
		if err == nil && pages == 0 {
			if left := list.RemainingItemCount; left == nil || *left != count-10 {
				t.Errorf("remainingItemCount is %v", ptr.Deref(left, -1))
			}
			create("page-99")
			err = secrets.Delete(ctx, "page-20", metav1.DeleteOptions{})
		}
		pages++
		return list, err
	})
	p.PageSize = 10
	var seen []string
	if err := p.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		seen = append(seen, object.(*corev1.Secret).Name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if pages != 3 || len(seen) != count {
		t.Errorf("%d pages, %d objects: %v", pages, len(seen), seen)
	}
	for i, name := range seen {
		if want := fmt.Sprintf("page-%02d", i); name != want {
			t.Errorf("object %d is %s, want %s", i, name, want)
		}
	}
}

// untypedClients see the same object as the typed client.
func untypedClients(t *testing.T, config *rest.Config, namespace string) {
	ctx := t.Context()
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one", "labels": map[string]any{"a": "b"}}, "data": map[string]any{"k": "v"},
	}}
	created, err := dynamicClient.Resource(resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	partial, err := metadataClient.Resource(resource).Namespace(namespace).Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if partial.UID != created.GetUID() || partial.Labels["a"] != "b" {
		t.Errorf("metadata: %+v", partial)
	}
	list, err := metadataClient.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 1 || list.Items[0].ResourceVersion != created.GetResourceVersion() {
		t.Errorf("metadata list: %+v, %v", list, err)
	}
}

// TestWatchSelector follows objects that begin and cease to match.
func TestWatchSelector(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	configMaps := shared.client.CoreV1().ConfigMaps(namespace)
	w, err := configMaps.Watch(ctx, metav1.ListOptions{LabelSelector: "watched=yes"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	object, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	label := func(value string) {
		t.Helper()
		object.Labels = map[string]string{"watched": value}
		if object, err = configMaps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(kind watch.EventType, value string) {
		t.Helper()
		select {
		case event := <-w.ResultChan():
			got, ok := event.Object.(*corev1.ConfigMap)
			if event.Type != kind || !ok || got.Labels["watched"] != value || got.ResourceVersion != object.ResourceVersion {
				t.Fatalf("%s %v, want %s with watched=%s at %s", event.Type, event.Object, kind, value, object.ResourceVersion)
			}
		case <-time.After(patience):
			t.Fatalf("no event, want %s", kind)
		}
	}
	label("yes")
	expect(watch.Added, "yes")
	object.Data = map[string]string{"a": "b"}
	label("yes")
	expect(watch.Modified, "yes")
	label("no")
	expect(watch.Deleted, "yes") // the last matching state, at the revision of the change
	label("yes")
	expect(watch.Added, "yes")
}

// sharedInformers checks that an informer's cache ends up equal to the server, through creates, updates and deletes.
func sharedInformers(t *testing.T, all kubernetes.Interface, namespace string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	factory := informers.NewSharedInformerFactoryWithOptions(all, 0, informers.WithNamespace(namespace))
	configMaps, pods := factory.Core().V1().ConfigMaps(), factory.Core().V1().Pods()
	deleted := make(chan string, 100)
	if _, err := configMaps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(object any) { deleted <- object.(*corev1.ConfigMap).Name },
	}); err != nil {
		t.Fatal(err)
	}
	pods.Informer()
	client := all.CoreV1().ConfigMaps(namespace)
	create := func(name string) {
		t.Helper()
		if _, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("before")
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("%v did not sync", kind)
		}
	}
	if _, err := configMaps.Lister().ConfigMaps(namespace).Get("before"); err != nil {
		t.Errorf("not in the cache after sync: %v", err)
	}
	for i := range 20 {
		create(fmt.Sprintf("object-%d", i))
	}
	for i := range 20 {
		name := fmt.Sprintf("object-%d", i)
		if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			object, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			object.Data = map[string]string{"updated": "yes"}
			_, err = client.Update(ctx, object, metav1.UpdateOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Delete(ctx, "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select { // events come in order: earlier writes have been seen before the deletion
	case name := <-deleted:
		if name != "before" {
			t.Errorf("%s was deleted", name)
		}
	case <-ctx.Done():
		t.Fatal("no event of the deletion")
	}
	for i := range 20 {
		name := fmt.Sprintf("object-%d", i)
		cached, err := configMaps.Lister().ConfigMaps(namespace).Get(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Get(ctx, name, metav1.GetOptions{})
		if diff := cmp.Diff(got, cached); err != nil || diff != "" {
			t.Errorf("cache differs (-server +cache): %v\n%s", err, diff)
		}
	}
}

// TestConcurrentUpdates has many clients count up the same object; no count is lost.
func TestConcurrentUpdates(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	client := shared.client.CoreV1().ConfigMaps(namespace)
	if _, err := client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "counter"}, Data: map[string]string{"n": "0"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 10
	done := make(chan error, writers)
	for range writers {
		go func() {
			var errs []error
			for range each {
				errs = append(errs, countUp(ctx, shared.client, namespace))
			}
			done <- errors.Join(errs...)
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	got, err := client.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil || got.Data["n"] != fmt.Sprint(writers*each) {
		t.Errorf("counted to %s: %v", got.Data["n"], err)
	}
}

// countUp increments the counter, and tries again after conflicts.
func countUp(ctx context.Context, client kubernetes.Interface, namespace string) error {
	for {
		object, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "counter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var n int
		if _, err := fmt.Sscan(object.Data["n"], &n); err != nil {
			return err
		}
		object.Data["n"] = fmt.Sprint(n + 1)
		if _, err = client.CoreV1().ConfigMaps(namespace).Update(ctx, object, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}
