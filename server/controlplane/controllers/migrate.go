package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/storagemigration"

	"github.com/rowlock/rowlock/resources"
)

// objectsAtOnce is how many objects of a resource are rewritten at the same time: one transaction takes all waiting writes.
const objectsAtOnce = 16

// migrate does the next step of the active migration of a resource.
func (c *migrations) migrate(ctx context.Context, m migration, of schema.GroupResource) error {
	if elsewhere, err := c.isElsewhere(ctx, of); err != nil || elsewhere {
		return err
	}
	catalog := c.registry.Catalog()
	served, ok := preferred(catalog, of)
	switch {
	case !ok:
		if time.Since(m.CreationTimestamp.Time) < unservedFor {
			c.queue.addAfter(of, lookAgain) // another server may have learned of the resource first
			return nil
		}
		if m.Status.ResourceVersion != "" {
			return c.fail(ctx, m, "migration encountered unhandled error: unable to obtain GVR from discovery")
		}
		return c.fail(ctx, m, "resource does not exist in discovery")
	case !migratable(served.Type, m.Status.ResourceVersion != ""):
		// The message is kube-controller-manager's, including the order of the verbs.
		return c.fail(ctx, m, fmt.Sprintf("resource %q does not support discovery operations: [update patch list]", served.GVR().String()))
	}
	t, ok := catalog.Type(of.String())
	if !ok {
		return fmt.Errorf("%s can be written and is not stored", of)
	}
	s, err := c.store.Snapshot(ctx, of.String(), resources.At{Match: resources.MostRecent})
	if err != nil {
		return err
	}
	if m.Status.ResourceVersion == "" {
		return c.write(ctx, m, func(now migration) bool {
			set := now.Status.ResourceVersion == "" && !now.over()
			if set {
				now.Status.ResourceVersion = resources.FormatRevision(s.Revision())
			}
			return set
		})
	}
	upTo, err := strconv.ParseInt(m.Status.ResourceVersion, 10, 64)
	if err != nil {
		return c.fail(ctx, m, fmt.Sprintf("migration encountered unhandled error: %v", err))
	}
	left, err := c.rewrite(ctx, t, s, upTo)
	return c.told(ctx, m, of, left, s.Count("", ""), err)
}

// preferred finds a resource in the version of its group that clients prefer, whether or not it is the storage version.
func preferred(catalog *resources.Catalog, of schema.GroupResource) (*resources.Served, bool) {
	g, ok := catalog.Group(of.Group)
	if !ok {
		return nil, false
	}
	for _, v := range g.Versions {
		if s, ok := catalog.Lookup(v.GroupVersion.WithResource(of.Resource)); ok && !s.Hidden {
			return s, true
		}
	}
	return nil, false
}

// migratable tells whether a type has the verbs of a migration: in discovery when it begins (a definition that is being deleted offers fewer),
// which kube-controller-manager does not look at afterwards.
func migratable(t *resources.Type, begun bool) bool {
	verbs := t.Verbs()
	if t.OfferedVerbs != nil && !begun {
		verbs = t.OfferedVerbs
	}
	return slices.Contains(verbs, "update") && slices.Contains(verbs, "patch") && slices.Contains(verbs, "list")
}

// rewrite writes objects as an empty patch does: those of a snapshot that are not newer than the migration, and all that are stored
// in another version, which a later write of mere metadata preserves. left is how many were not written.
func (c *migrations) rewrite(ctx context.Context, t *resources.Type, s resources.Snapshot, upTo int64) (left int, err error) {
	var keys []resources.Key
	s.Ascend("", "", func(o *resources.Object) bool {
		if o.Revision <= upTo || t.StoredIn == nil && !t.IsIn(o, t.StorageVersion) {
			keys = append(keys, o.Key)
		}
		return true
	})
	var done atomic.Int64
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(objectsAtOnce)
	for _, key := range keys {
		if ctx.Err() != nil {
			break
		}
		work.Go(func() error {
			err := c.change(ctx, t, key.Namespace, key.Name, "", "patch", "", runtime.Object.DeepCopyObject)
			if err == nil {
				done.Add(1)
			}
			return err
		})
	}
	err = work.Wait()
	return len(keys) - int(done.Load()), err
}

// told writes the result into the status. It returns an error that may be transient, and the migration continues later.
func (c *migrations) told(ctx context.Context, m migration, of schema.GroupResource, left, all int, err error) error {
	switch {
	case err == nil:
		return c.write(ctx, m, func(now migration) bool {
			if now.over() {
				return false
			}
			now.run(runningMessage(0, all)) // without objects the message may be the same already
			return now.set(storagemigration.MigrationSucceeded, "StorageVersionMigrationSucceeded", "Migration completed")
		})
	case ctx.Err() != nil:
		return nil
	case errors.As(err, new(*resources.ExpectationError)):
		c.queue.addAfter(of, firstRetry) // this server is about to see the new definition
		return nil
	case passes(err):
		const transient = "; transient error: "
		return errors.Join(err, c.write(ctx, m, func(now migration) bool {
			// Written once only: each such write triggers the next step at once.
			running := meta.FindStatusCondition(now.Status.Conditions, string(storagemigration.MigrationRunning))
			return !now.over() && running != nil && !strings.Contains(running.Message, transient) && now.run(runningMessage(left, all)+transient+err.Error())
		}))
	}
	return c.write(ctx, m, func(now migration) bool {
		if now.over() {
			return false
		}
		now.run(runningMessage(left, all))
		return now.set(storagemigration.MigrationFailed, "StorageVersionMigrationFailed", fmt.Sprintf("%d/%d not yet migrated. migration encountered unhandled error: %s", left, all, err))
	})
}

// passes tells whether an error may be transient. Errors without a status come from the store and from webhooks; a client sees
// them as internal errors.
func passes(err error) bool {
	return !errors.As(err, new(apierrors.APIStatus)) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}

const (
	crdsResource = "customresourcedefinitions.apiextensions.k8s.io"
	// definitionMarker is the field manager of the definition's condition: the name of kube-controller-manager's controller.
	definitionMarker = "migration-runner-controller"
)

// markDefinition sets the condition that the stored objects are about to be migrated. Its observedGeneration says for which
// generation of the definition that holds.
func (c *migrations) markDefinition(ctx context.Context, of schema.GroupResource, migration string) error {
	return c.changeDefinition(ctx, of, func(crd *apiextensions.CustomResourceDefinition) error {
		setStorageMigrating(crd, apiextensions.CustomResourceDefinitionCondition{Type: storageMigrating, Status: apiextensions.ConditionTrue,
			Reason: "MigrationRunning", Message: fmt.Sprintf("Migration %s is running", migration), ObservedGeneration: crd.Generation})
		return nil
	})
}

const storageMigrating apiextensions.CustomResourceDefinitionConditionType = "StorageMigrating"

// unmarkDefinition sets the condition to the result of a migration. If it succeeded and the generation has not changed since, all
// objects are stored in one version.
func (c *migrations) unmarkDefinition(ctx context.Context, of schema.GroupResource, succeeded bool) error {
	return c.changeDefinition(ctx, of, func(crd *apiextensions.CustomResourceDefinition) error {
		now := apiextensions.CustomResourceDefinitionCondition{Type: storageMigrating, Status: apiextensions.ConditionFalse, Reason: "MigrationFailed",
			Message: "The migration has failed", ObservedGeneration: crd.Generation}
		was := apiextensions.FindCRDCondition(crd, storageMigrating)
		switch {
		case !succeeded:
		case was == nil || was.ObservedGeneration != crd.Generation:
			now.Reason, now.Message = "MigrationSucceeded", "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
		default:
			now.Reason, now.Message = "MigrationSucceeded", "The migration has succeeded and the stored versions have been updated"
			storage, err := c.storedAlone(ctx, of, crd)
			if err != nil {
				return err
			}
			crd.Status.StoredVersions = []string{storage}
		}
		setStorageMigrating(crd, now)
		return nil
	})
}

func setStorageMigrating(crd *apiextensions.CustomResourceDefinition, c apiextensions.CustomResourceDefinitionCondition) {
	apiextensions.SetCRDCondition(crd, c)
	apiextensions.FindCRDCondition(crd, storageMigrating).ObservedGeneration = c.ObservedGeneration // SetCRDCondition does not update this field
}

// storedAlone returns the storage version of a definition when all objects are stored in it. While the definition does not
// change, none is stored in another version from then on.
func (c *migrations) storedAlone(ctx context.Context, of schema.GroupResource, crd *apiextensions.CustomResourceDefinition) (storage string, err error) {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			storage = v.Name
		}
	}
	in := &resources.Type{Untyped: true, Kind: crd.Status.AcceptedNames.Kind}
	s, err := c.store.Snapshot(ctx, of.String(), resources.At{Match: resources.MostRecent})
	if err != nil {
		return "", err
	}
	s.Ascend("", "", func(o *resources.Object) bool {
		if !in.IsIn(o, schema.GroupVersion{Group: crd.Spec.Group, Version: storage}) {
			err = fmt.Errorf("%s is not stored in version %s", o.Key, storage)
		}
		return err == nil
	})
	return storage, err
}

// changeDefinition changes the status of the definition of a resource, if there is one.
func (c *migrations) changeDefinition(ctx context.Context, of schema.GroupResource, edit func(*apiextensions.CustomResourceDefinition) error) error {
	t, ok := c.registry.Catalog().Type(crdsResource)
	if !ok {
		return nil
	}
	manager, err := t.ServerManager("status")
	if err != nil {
		return err
	}
	var failed error
	err = c.change(ctx, t, "", of.String(), "", "patch", "status", func(existing runtime.Object) runtime.Object {
		failed = nil
		old, ok := existing.(*apiextensions.CustomResourceDefinition)
		if !ok {
			return nil
		}
		now := old.DeepCopy()
		if failed = edit(now); failed != nil {
			return nil
		}
		var patch *unstructured.Unstructured
		if patch, failed = definitionPatch(t, now); failed != nil {
			return nil
		}
		var applied runtime.Object
		if applied, failed = manager.Apply(old, patch, definitionMarker, true); failed != nil {
			return nil
		}
		return applied
	})
	return errors.Join(failed, err)
}

// definitionPatch has what the controller applies to the status of a definition. Each apply has the stored versions: those that it left out would be
// removed, where an earlier one has set them.
func definitionPatch(t *resources.Type, now *apiextensions.CustomResourceDefinition) (*unstructured.Unstructured, error) {
	c := apiextensions.FindCRDCondition(now, storageMigrating)
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: now.Status.StoredVersions,
		Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.StorageMigrating, Status: apiextensionsv1.ConditionStatus(c.Status),
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration}}})
	delete(status, "acceptedNames")
	patch := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	patch.SetGroupVersionKind(t.StorageVersion.WithKind(t.Kind))
	patch.SetName(now.Name)
	return patch, err
}
