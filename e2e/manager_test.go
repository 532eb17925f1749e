package e2e

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const copierFinalizer = "example.com/copier"

// copier keeps a Secret with the data of each ConfigMap that has the label for it.
type copier struct{ client.Client }

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	target := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name + "-copy", Namespace: source.Namespace}}
	if !source.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(c.Delete(ctx, target)); err != nil {
			return ctrl.Result{}, err
		}
		if controllerutil.RemoveFinalizer(&source, copierFinalizer) {
			return ctrl.Result{}, c.Update(ctx, &source)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&source, copierFinalizer) {
		if err := c.Update(ctx, &source); err != nil {
			return ctrl.Result{}, err
		}
	}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, target, func() error {
		target.Data = map[string][]byte{}
		for key, value := range source.Data {
			target.Data[key] = []byte(value)
		}
		return controllerutil.SetControllerReference(&source, target, c.Scheme())
	})
	return ctrl.Result{}, err
}

// startManager runs a manager with the copier, elected by a Lease, until the test ends.
func startManager(t *testing.T, namespace string) {
	t.Helper()
	log.SetLogger(logr.Discard())
	manager, err := ctrl.NewManager(shared.config, ctrl.Options{
		LeaderElection: true, LeaderElectionID: "copier", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(manager).Named(unique("copier")).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(&copier{manager.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
}

// TestManager runs a controller written with controller-runtime: the object that it owns follows the one that it watches.
func TestManager(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	namespace := newNamespace(t)
	startManager(t, namespace)
	secrets, configMaps := shared.client.CoreV1().Secrets(namespace), shared.client.CoreV1().ConfigMaps(namespace)
	seen, err := secrets.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=source-copy"})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()

	source, err := configMaps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "source"}, Data: map[string]string{"a": "1"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made := awaitSecret(t, seen, watch.Added, map[string]string{"a": "1"})
	if len(made.OwnerReferences) != 1 || made.OwnerReferences[0].UID != source.UID {
		t.Errorf("owners: %v", made.OwnerReferences)
	}
	setData(ctx, t, namespace, map[string]string{"a": "2", "b": "3"})
	awaitSecret(t, seen, watch.Modified, map[string]string{"a": "2", "b": "3"})

	// A copy that another client deletes is created anew.
	if err := secrets.Delete(ctx, "source-copy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitSecret(t, seen, watch.Deleted, map[string]string{"a": "2", "b": "3"})
	awaitSecret(t, seen, watch.Added, map[string]string{"a": "2", "b": "3"})

	// The finalizer keeps the source until the copy is deleted.
	gone, err := configMaps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=source"})
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Stop()
	if err := configMaps.Delete(ctx, "source", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitSecret(t, seen, watch.Deleted, map[string]string{"a": "2", "b": "3"})
	for event := range gone.ResultChan() {
		if event.Type == watch.Deleted {
			break
		}
	}
	if _, err := configMaps.Get(ctx, "source", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the source: %v, want NotFound", err)
	}
}

// setData changes the source, however often the controller writes in between.
func setData(ctx context.Context, t *testing.T, namespace string, data map[string]string) {
	t.Helper()
	configMaps := shared.client.CoreV1().ConfigMaps(namespace)
	for {
		source, err := configMaps.Get(ctx, "source", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		source.Data = data
		if _, err = configMaps.Update(ctx, source, metav1.UpdateOptions{}); err == nil {
			return
		} else if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// awaitSecret waits for an event of the copy and checks its data.
func awaitSecret(t *testing.T, seen watch.Interface, kind watch.EventType, data map[string]string) *corev1.Secret {
	t.Helper()
	select {
	case event, ok := <-seen.ResultChan():
		secret, _ := event.Object.(*corev1.Secret)
		if !ok || event.Type != kind || secret == nil {
			t.Fatalf("%s %v, want %s", event.Type, event.Object, kind)
		}
		got := map[string]string{}
		for key, value := range secret.Data {
			got[key] = string(value)
		}
		if !maps.Equal(got, data) {
			t.Errorf("the copy has %v, want %v", got, data)
		}
		return secret
	case <-time.After(patience):
		t.Fatalf("no event of the copy, want %s", kind)
		return nil
	}
}
