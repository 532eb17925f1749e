package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/sqlstore"
)

// cluster is a store with the built-in types, and controllers that can be started and stopped.
type cluster struct {
	*testing.T
	ctx      context.Context
	store    resources.Store
	pipeline *resources.Pipeline
	registry *resources.Registry
	// theirs is the store as the controllers see it.
	theirs resources.Store
	// writes is the pipeline of the controllers. Nil: one on their store.
	writes *resources.Pipeline
	// server is the server of the controllers' clients; see serve.
	server *server.Server
	// change are the final changes to the configuration of the controllers.
	change []func(*controllers.Config)
}

// patience is how long a test waits for an expected result. Only a failing test waits that long.
const patience = 2 * time.Minute

func newCluster(t *testing.T) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	store, err := sqlstore.Open(ctx, sqlstore.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "rowlock.db"), Synchronous: "normal",
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{T: t, ctx: ctx, store: store, theirs: store, pipeline: resources.NewPipeline(store, resources.PipelineOptions{}), registry: resources.NewRegistry()}
	c.registry.SetGroups(builtin.Groups())
	c.namespace("default")
	c.namespace("ns")
	return c
}

// start runs the controllers until the returned function is called, or the test ends.
func (c *cluster) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	writes := c.writes
	if writes == nil {
		writes = resources.NewPipeline(c.theirs, resources.PipelineOptions{})
	}
	done := make(chan error, 1)
	config := controllers.Config{Registry: c.registry, Store: c.theirs, Pipeline: writes, Enabled: controllers.Names(),
		Logger: slog.New(slog.NewTextHandler(c.Output(), nil))}
	for _, change := range c.change {
		change(&config)
	}
	go func() { done <- controllers.Run(ctx, config) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.Error(err)
		}
	})
	c.Cleanup(stop)
	return stop
}

func (c *cluster) typeOf(resource string) *resources.Type {
	c.Helper()
	t, ok := c.registry.Catalog().Type(resource)
	if !ok {
		c.Fatalf("no type %s", resource)
	}
	return t
}

// create stores an object by the rules of its type.
func (c *cluster) create(resource string, obj runtime.Object) *resources.Object {
	c.Helper()
	m, err := meta.Accessor(obj)
	if err != nil {
		c.Fatal(err)
	}
	t := c.typeOf(resource)
	o, err := c.pipeline.Create(resources.APIServer.Request(c.ctx, "create", t, t.KeyOf(m.GetNamespace(), m.GetName())),
		&resources.CreateRequest{Type: t, Object: obj})
	if err != nil {
		c.Fatalf("create %s %s: %v", resource, m.GetName(), err)
	}
	return o
}

func (c *cluster) namespace(name string) *resources.Object {
	c.Helper()
	return c.create("namespaces", &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// option changes a config map before it is created.
type option func(*core.ConfigMap)

func withFinalizer(f string) option {
	return func(m *core.ConfigMap) { m.Finalizers = append(m.Finalizers, f) }
}

func in(namespace string) option { return func(m *core.ConfigMap) { m.Namespace = namespace } }

// ownedBy adds config maps as owners of the config map.
func ownedBy(owners ...*resources.Object) option {
	return func(m *core.ConfigMap) {
		for _, o := range owners {
			m.OwnerReferences = append(m.OwnerReferences, refTo(o))
		}
	}
}

func blocking(owners ...*resources.Object) option {
	return func(m *core.ConfigMap) {
		for _, o := range owners {
			ref := refTo(o)
			ref.BlockOwnerDeletion = ptr(true)
			m.OwnerReferences = append(m.OwnerReferences, ref)
		}
	}
}

func refTo(o *resources.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: gjson.GetBytes(o.Data, "apiVersion").Str, Kind: gjson.GetBytes(o.Data, "kind").Str,
		Name: o.Name, UID: uidOf(o)}
}

func uidOf(o *resources.Object) types.UID {
	return types.UID(gjson.GetBytes(o.Data, "metadata.uid").Str)
}

func ptr[T any](v T) *T { return &v }

// thing creates a config map, which stands for any owner or dependent.
func (c *cluster) thing(name string, options ...option) *resources.Object {
	c.Helper()
	m := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	for _, o := range options {
		o(m)
	}
	return c.create("configmaps", m)
}

// delete requests a deletion.
func (c *cluster) delete(o *resources.Object, policy metav1.DeletionPropagation) {
	c.Helper()
	t := c.typeOf(o.Resource)
	r := resources.DeleteRequest{Type: t, Name: o.Name, Options: &metav1.DeleteOptions{PropagationPolicy: &policy}}
	if _, err := c.pipeline.Delete(resources.APIServer.Request(c.ctx, "delete", t, o.Key), &r); err != nil {
		c.Fatalf("delete %s: %v", o.Key, err)
	}
}

// edit changes an object, through a subresource if one is named.
func (c *cluster) edit(o *resources.Object, change func(metav1.Object), subresource ...string) {
	c.Helper()
	t := c.typeOf(o.Resource)
	r := resources.UpdateRequest{Type: t, Name: o.Name,
		Change: func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
			obj := existing.DeepCopyObject()
			m, err := meta.Accessor(obj)
			if err == nil {
				change(m)
			}
			return obj, err
		}}
	if _, _, err := c.pipeline.Update(resources.APIServer.Request(c.ctx, "update", t, o.Key, subresource...), &r); err != nil {
		c.Fatalf("update %s: %v", o.Key, err)
	}
}

func withoutFinalizers(m metav1.Object) { m.SetFinalizers(nil) }

// get returns the present state, or nil.
func (c *cluster) get(key resources.Key) *resources.Object {
	c.Helper()
	o, err := c.store.Get(c.ctx, key, resources.At{Match: resources.MostRecent})
	if err != nil && !errors.Is(err, resources.ErrNotFound) {
		c.Fatal(err)
	}
	return o
}

// until waits until an object satisfies a condition; nil stands for a missing object.
func (c *cluster) until(what string, key resources.Key, is func(*resources.Object) bool) {
	c.Helper()
	s, err := c.store.Snapshot(c.ctx, key.Resource, resources.At{Match: resources.MostRecent})
	if err != nil {
		c.Fatal(err)
	}
	w, err := c.store.Watch(c.ctx, resources.WatchOptions{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name, After: s.Revision()})
	if err != nil {
		c.Fatal(err)
	}
	defer w.Close()
	for !is(c.get(key)) {
		if _, _, err := w.Next(c.ctx, 1000); err != nil {
			c.Fatal(err)
		}
		if is(c.get(key)) {
			return
		}
		select {
		case <-w.Ready():
		case <-c.ctx.Done():
			c.Fatalf("%s: %s did not come about; it is %s", key, what, c.describe(key))
		}
	}
}

func (c *cluster) describe(key resources.Key) string {
	o, err := c.store.Get(context.Background(), key, resources.At{Match: resources.MostRecent})
	if err != nil {
		return err.Error()
	}
	return string(o.Data)
}

func (c *cluster) gone(objects ...*resources.Object) {
	c.Helper()
	for _, o := range objects {
		c.until("its end", o.Key, func(now *resources.Object) bool { return now == nil || uidOf(now) != uidOf(o) })
	}
}

// stays checks that objects exist after the controllers have certainly examined them.
func (c *cluster) stays(objects ...*resources.Object) {
	c.Helper()
	c.settle()
	for _, o := range objects {
		if now := c.get(o.Key); now == nil || uidOf(now) != uidOf(o) {
			c.Errorf("%s is gone", o.Key)
		} else if gjson.GetBytes(now.Data, "metadata.deletionTimestamp").Exists() {
			c.Errorf("%s is being deleted", o.Key)
		}
	}
}

// settle waits until the garbage collector has done work that was requested later, several times in a row.
func (c *cluster) settle() {
	c.Helper()
	for i := range 5 {
		absent := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "absent", UID: types.UID(fmt.Sprint("absent-", i))}
		c.gone(c.thing("canary", in("default"), func(m *core.ConfigMap) { m.OwnerReferences = []metav1.OwnerReference{absent} }))
	}
}

// ends returns the names of the objects of a type in the order in which they were removed since a revision.
func (c *cluster) ends(resource string, after int64) []string {
	c.Helper()
	w, err := c.store.Watch(c.ctx, resources.WatchOptions{Resource: resource, After: after})
	if err != nil {
		c.Fatal(err)
	}
	defer w.Close()
	var names []string
	for {
		events, _, err := w.Next(c.ctx, 1000)
		if err != nil {
			c.Fatal(err)
		}
		if len(events) == 0 {
			return names
		}
		for _, e := range events {
			if e.Op == resources.Delete {
				names = append(names, e.Object.Name)
			}
		}
	}
}
