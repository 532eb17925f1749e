package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const harbourFinalizer = "harbour.example.com/berth"

// harbour docks each ship, and removes its finalizer when it is deleted.
type harbour struct{ client.Client }

func (h *harbour) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var s ship
	if err := h.Get(ctx, request.NamespacedName, &s); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !s.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&s, harbourFinalizer) {
			return ctrl.Result{}, h.Update(ctx, &s)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&s, harbourFinalizer) {
		return ctrl.Result{}, h.Update(ctx, &s)
	}
	s.Status = shipStatus{Docked: true, ObservedGeneration: s.Generation}
	return ctrl.Result{}, h.Status().Update(ctx, &s)
}

// startHarbour runs a manager with the controller of ships and the webhook that converts them. It returns a function that stops it.
func startHarbour(t *testing.T, e *envtest.Environment) (stop func()) {
	t.Helper()
	log.SetLogger(logr.Discard())
	o := e.WebhookInstallOptions
	manager, err := ctrl.NewManager(e.Config, ctrl.Options{
		Scheme: e.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: o.LocalServingHost, Port: o.LocalServingPort, CertDir: o.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewWebhookManagedBy(manager, &ship{}).Complete(); err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(manager).Named(unique("harbour")).For(&ship{}).Complete(&harbour{manager.GetClient()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	eventually(t, "the webhook listens", func() error { return manager.GetWebhookServer().StartedChecker()(nil) })
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, so func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := so()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestOperator runs the controller of a custom resource with two versions as its author tests it: envtest installs the definition from its directory,
// the manager converts, keeps a finalizer and writes the status. Without the manager there is no conversion; requests that need none still work.
func TestOperator(t *testing.T) {
	if database.url != "" {
		return // the servers of envtest have stores of their own, whatever database the other tests use
	}
	e := &envtest.Environment{BinaryAssetsDirectory: envtestAssets(t), Scheme: shipScheme(), CRDDirectoryPaths: []string{"testdata/operator"},
		ErrorIfCRDPathMissing: true}
	config, err := e.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}()
	c, err := client.NewWithWatch(config, client.Options{Scheme: e.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	stop := startHarbour(t, e)
	operatorConverts(t, c)
	operatorLetsGo(t, c)
	stop()
	operatorIsAway(t, c)
}

func newOldShip(name, title string) *oldShip {
	s := &oldShip{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	s.Spec.Title = title
	return s
}

// operatorConverts creates ships in both versions and finds all of them in both.
func operatorConverts(t *testing.T, c client.WithWatch) {
	ctx := t.Context()
	events, err := c.Watch(ctx, &oldShipList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for i := range 5 {
		if err := c.Create(ctx, newOldShip(fmt.Sprint("old-", i), fmt.Sprint("HMS Old ", i))); err != nil {
			t.Fatal(err)
		}
		s := &ship{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("new-", i), Namespace: "default"}}
		s.Spec.Title.Name = fmt.Sprint("New ", i)
		if err := c.Create(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Create(ctx, newOldShip("nameless", "nameless")); !apierrors.IsInvalid(err) {
		t.Errorf("a title without a name: %v", err)
	}
	docked := 0
	for docked < 10 { // in the version of the watch
		event := <-events.ResultChan()
		s, ok := event.Object.(*oldShip)
		if !ok || !strings.HasPrefix(s.Spec.Title, "HMS Old ") && !strings.HasPrefix(s.Spec.Title, "SS New ") {
			t.Fatalf("%s %+v", event.Type, event.Object)
		}
		if event.Type == watch.Modified && s.Status.Docked && s.Status.ObservedGeneration == 1 {
			docked++
		}
	}
	var old oldShipList
	var current shipList
	if err := c.List(ctx, &old); err != nil {
		t.Fatal(err)
	}
	if err := c.List(ctx, &current); err != nil {
		t.Fatal(err)
	}
	var titles []string
	for i := range old.Items {
		s := &current.Items[i]
		if got, want := old.Items[i].Spec.Title, s.Spec.Title.Prefix+" "+s.Spec.Title.Name; got != want || old.Items[i].ResourceVersion != s.ResourceVersion {
			t.Errorf("%s is %q in one version and %q in the other", s.Name, got, want)
		}
		titles = append(titles, old.Items[i].Spec.Title)
	}
	if len(titles) != 10 || !slices.Contains(titles, "SS New 3") {
		t.Errorf("a list has %q", titles)
	}
	patched := newOldShip("new-0", "")
	if err := c.Patch(ctx, patched, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"title":"RMS Olympic"}}`))); err != nil {
		t.Fatal(err)
	}
	var s ship
	if err := c.Get(ctx, client.ObjectKeyFromObject(patched), &s); err != nil || s.Spec.Title != (shipTitle{"Olympic", "RMS"}) || s.Generation != 2 {
		t.Errorf("after a patch in the old version: %+v, %v", s, err)
	}
}

// operatorLetsGo deletes a ship, which is gone once the controller has removed its finalizer.
func operatorLetsGo(t *testing.T, c client.Client) {
	gone := newOldShip("old-0", "")
	if err := c.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ship goes", func() error {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(gone), &ship{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get: %w", err)
	})
}

// operatorIsAway checks which requests work without a converter.
func operatorIsAway(t *testing.T, c client.Client) {
	ctx := t.Context()
	if err := c.Create(ctx, newOldShip("late", "SS Late")); err == nil || !strings.Contains(err.Error(), "conversion webhook for harbour.example.com/v1beta1, Kind=Ship failed") {
		t.Errorf("create: %v", err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "harbour.example.com", Version: "v1beta1", Kind: "ShipList"})
	if err := c.List(ctx, list); err != nil || len(list.Items) != 9 {
		t.Errorf("a list of metadata: %d, %v", len(list.Items), err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	one := &unstructured.Unstructured{}
	one.SetGroupVersionKind(schema.GroupVersionKind{Group: "harbour.example.com", Version: "v1", Kind: "Ship"})
	one.SetNamespace("default")
	for i := range list.Items {
		one.SetName(list.Items[i].Name)
		if err := c.Patch(ctx, one, patch); err != nil {
			t.Errorf("patch of %s in the version that is stored: %v", one.GetName(), err)
		}
		one.SetGroupVersionKind(schema.GroupVersionKind{Group: "harbour.example.com", Version: "v1", Kind: "Ship"})
	}
	if err := c.DeleteAllOf(ctx, &oldShip{}, client.InNamespace("default")); err != nil {
		t.Errorf("deletecollection in a version that nobody converts to: %v", err)
	}
	var left shipList
	if err := c.List(ctx, &left); err != nil || len(left.Items) != 0 {
		t.Errorf("left: %d, %v", len(left.Items), err)
	}
}
