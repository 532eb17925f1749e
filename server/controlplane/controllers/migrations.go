package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/storagemigration"

	"github.com/rowlock/rowlock/resources"
)

// migrations carries out StorageVersionMigrations: it rewrites the objects of a resource, so that all are stored in the storage version.
// Of several migrations of a resource, the oldest is active. The next step follows from the stored state alone, and each step ends with a
// write of a status, so that another server, or kube-controller-manager, can do any of the steps.
type migrations struct {
	registry *resources.Registry
	store    resources.View
	pipeline *resources.Pipeline
	logger   *slog.Logger
	queue    *queue[schema.GroupResource]
}

const (
	migrationsResource = "storageversionmigrations.storagemigration.k8s.io"
	// migrationWorkers is how many resources are migrated at the same time, as in kube-controller-manager.
	migrationWorkers = 5
	// unservedFor is how long a resource may be unserved before its migration fails, as in kube-controller-manager. lookAgain is the
	// interval of checking until then.
	unservedFor = time.Minute
	lookAgain   = time.Second
)

// migrator is the service account that rewrites objects.
var migrator = resources.Controller(StorageVersionMigrator)

func newMigrations(c Config) *migrations {
	return &migrations{registry: c.Registry, store: c.Store, pipeline: c.Pipeline, logger: c.Logger, queue: newQueue[schema.GroupResource](c.Logger)}
}

func (c *migrations) work(ctx context.Context) { c.queue.work(ctx, migrationWorkers, c.sync) }

func (c *migrations) forget() {}

func (c *migrations) typesChanged() {}

// observe queues the resource of a migration; the end of one lets the next one begin. An APIService that no longer has a Service may make this server's
// what was another server's.
func (c *migrations) observe(e *resources.Event) {
	switch {
	case e.Object.Resource == migrationsResource:
		c.queue.Add(migrated(e.Object))
	case wasProxied(e):
		s, err := c.store.Snapshot(context.Background(), migrationsResource, resources.At{Match: resources.Any}) // the read does not wait
		if err != nil {
			return // the store is closed
		}
		s.Ascend("", "", func(o *resources.Object) bool {
			c.queue.Add(migrated(o))
			return true
		})
	}
}

// migrated is the resource of a stored migration.
func migrated(o *resources.Object) schema.GroupResource {
	spec := gjson.GetBytes(o.Data, "spec.resource")
	return schema.GroupResource{Group: spec.Get("group").Str, Resource: spec.Get("resource").Str}
}

// migration is a StorageVersionMigration as it was read.
type migration struct {
	*storagemigration.StorageVersionMigration
	t *resources.Type
}

func (m migration) is(condition storagemigration.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}

func (m migration) over() bool {
	return m.is(storagemigration.MigrationSucceeded) || m.is(storagemigration.MigrationFailed)
}

// sync does the next step of the migrations of a resource.
func (c *migrations) sync(ctx context.Context, of schema.GroupResource) error {
	all, err := c.of(ctx, of)
	if err != nil || len(all) == 0 {
		return err
	}
	running := slices.IndexFunc(all, func(m migration) bool { return m.is(storagemigration.MigrationRunning) })
	if running < 0 {
		if next := slices.IndexFunc(all, func(m migration) bool { return !m.over() }); next >= 0 {
			return c.begin(ctx, all[next], of)
		}
		return nil
	}
	switch m := all[running]; {
	case m.over():
		return c.end(ctx, m, of)
	default:
		return c.migrate(ctx, m, of)
	}
}

// of returns the migrations of a resource, oldest first.
func (c *migrations) of(ctx context.Context, of schema.GroupResource) (all []migration, err error) {
	t, ok := c.registry.Catalog().Type(migrationsResource)
	if !ok {
		return nil, nil
	}
	s, err := c.store.Snapshot(ctx, migrationsResource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, err
	}
	s.Ascend("", "", func(o *resources.Object) bool {
		if migrated(o) != of {
			return true // there may be thousands, most of them over
		}
		var hub runtime.Object
		if hub, err = t.DecodeHub(o); err != nil {
			return false
		}
		if m, ok := hub.(*storagemigration.StorageVersionMigration); ok {
			all = append(all, migration{m, t})
		}
		return true
	})
	slices.SortFunc(all, func(a, b migration) int {
		if older := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); older != 0 {
			return older
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, err
}

// begin makes a migration the active one. It covers the objects that are stored by then; the definition is marked before.
func (c *migrations) begin(ctx context.Context, m migration, of schema.GroupResource) error {
	if elsewhere, err := c.isElsewhere(ctx, of); err != nil || elsewhere {
		return err
	}
	if err := c.markDefinition(ctx, of, m.Name); err != nil {
		return err
	}
	return c.write(ctx, m, func(now migration) bool {
		return !now.is(storagemigration.MigrationRunning) && !now.over() && now.run(runningMessage(0, 0))
	})
}

// end completes a migration, which lets the next one begin.
func (c *migrations) end(ctx context.Context, m migration, of schema.GroupResource) error {
	if t, ok := c.registry.Catalog().Type(of.String()); ok && m.is(storagemigration.MigrationSucceeded) {
		// A write of mere metadata, which keeps an object in its version, may have overtaken the migration.
		s, err := c.store.Snapshot(ctx, of.String(), resources.At{Match: resources.MostRecent})
		if err != nil {
			return err
		}
		if _, err := c.rewrite(ctx, t, s, 0); err != nil {
			return err
		}
	}
	if err := c.unmarkDefinition(ctx, of, m.is(storagemigration.MigrationSucceeded)); err != nil {
		return err
	}
	return c.write(ctx, m, func(now migration) bool {
		return meta.SetStatusCondition(&now.Status.Conditions, metav1.Condition{Type: string(storagemigration.MigrationRunning), Status: metav1.ConditionFalse,
			Reason: "MigrationCompleted", Message: "Migration completed", ObservedGeneration: now.Generation})
	})
}

// isElsewhere tells whether another server may serve a resource, and this server does not. kube-controller-manager migrates those.
func (c *migrations) isElsewhere(ctx context.Context, of schema.GroupResource) (bool, error) {
	elsewhere, err := readProxied(ctx, c.store)
	if err != nil {
		return false, err
	}
	catalog := c.registry.Catalog()
	if _, ok := catalog.Type(of.String()); ok {
		return elsewhere.every(catalog, of), nil
	}
	for name := range elsewhere {
		if _, group, _ := strings.Cut(name, "."); group == of.Group {
			return true, nil
		}
	}
	return false, nil
}

// set sets a condition of a migration, and run its condition Running; false: nothing changes.
func (m migration) set(condition storagemigration.MigrationConditionType, reason, message string) bool {
	return meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(condition), Status: metav1.ConditionTrue, Reason: reason, Message: message})
}

func (m migration) run(message string) bool {
	return m.set(storagemigration.MigrationRunning, "MigrationRunning", message)
}

// fail ends a migration that cannot succeed.
func (c *migrations) fail(ctx context.Context, m migration, message string) error {
	return c.write(ctx, m, func(now migration) bool {
		return !now.over() && now.set(storagemigration.MigrationFailed, "StorageVersionMigrationFailed", message)
	})
}

// runningMessage says how many objects are left, of how many.
func runningMessage(left, all int) string {
	switch {
	case all == 0:
		return "The migration is running"
	case left == 0:
		return fmt.Sprintf("The migration is running, %d objects verified migrated", all)
	}
	return fmt.Sprintf("The migration is running, %d/%d objects not yet migrated", left, all)
}

// write changes the status of a migration, if it still exists and edit changes anything.
func (c *migrations) write(ctx context.Context, m migration, edit func(now migration) bool) error {
	manager, err := m.t.ServerManager("status")
	if err != nil {
		return err
	}
	return c.change(ctx, m.t, "", m.Name, m.UID, "update", "status", func(existing runtime.Object) runtime.Object {
		old, ok := existing.(*storagemigration.StorageVersionMigration)
		if !ok {
			return nil
		}
		now := migration{old.DeepCopy(), m.t}
		if !edit(now) {
			return nil
		}
		return manager.Update(old, now.StorageVersionMigration, fieldManager)
	})
}

// change changes an object, if it still exists. edit returns nil to leave it alone. Without a uid, a conflict counts as the work of another writer,
// as in kube-controller-manager.
func (c *migrations) change(ctx context.Context, t *resources.Type, namespace, name string, uid types.UID, verb, subresource string, edit func(runtime.Object) runtime.Object) error {
	unchanged := errors.New("there is nothing to change")
	r := resources.UpdateRequest{Type: t, Name: name, UID: uid, Change: func(_ context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
		if live == nil {
			return nil, resources.ErrNotFound
		}
		if obj := edit(existing); obj != nil {
			return obj, nil
		}
		return nil, unchanged
	}}
	key := t.KeyOf(namespace, name)
	_, _, err := c.pipeline.Update(migrator.Request(ctx, verb, t, key, subresource), &r)
	if errors.Is(err, unchanged) {
		return nil
	}
	return resources.UnlessGone(ctx, c.store, key, uid, 0, err)
}
