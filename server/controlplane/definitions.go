package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

const definitionsResource = "customresourcedefinitions.apiextensions.k8s.io"

// Definitions are the types that CustomResourceDefinitions define.
type Definitions interface {
	// Seen registers every definition that reads and watches of this server have shown, whichever server wrote it.
	Seen(ctx context.Context) error
	// Latest registers every definition that was stored when it was called, whichever server wrote it.
	Latest(ctx context.Context) error
	// StoredType returns the type by which the objects of a definition are stored; false: there is none.
	StoredType(name string) (*resources.Type, bool)
	// Unfinished returns the sorted names of two kinds of definitions: those that are being deleted (leaving), and those that have
	// no accepted names, or have them and are not served yet (waiting).
	Unfinished() (leaving, waiting []string)
	// BuiltIn reports whether a resource is served without a definition.
	BuiltIn(resource string) bool
	// Claimed returns the versions that definitions would serve, established or not, with the priorities of their APIServices.
	Claimed() []resources.GroupSpec
}

const (
	// instancesLeft is the interval of checking whether one of the objects of a definition that is being deleted has changed, when
	// finalizers keep some.
	instancesLeft = time.Second
	// patience is how long kube-apiserver waits for these objects before it reports a timeout.
	patience = time.Minute
	// instancesPerTurn is the number of objects of a definition that are deleted in a turn. The next turn follows at once: no other definition waits
	// until all are deleted.
	instancesPerTurn = 1000
)

// definitionKeeper finishes the deletion of definitions and of their objects, and assigns names that have become free to the
// definitions that wait for them. kube-apiserver's controllers do this work, except for what the write of a definition already
// settles here.
type definitionKeeper struct {
	*Plane
	t *resources.Type
	// more: a definition has more objects to delete than the turn has deleted.
	more bool
	// manager is the field manager of writes to the status.
	manager *fieldmanager.Manager
	// after is the path after which the next turn continues, by resource, where an object could not be deleted.
	after map[string]string
	// looks are the last looks at the definitions that wait for their objects to go, by name.
	looks map[string]look
	// settled is the number of Reader.Changed for which all definitions that wait for a name were last settled.
	settled int64
}

// look is a look at a definition that is being deleted, and at its objects.
type look struct {
	// definition is the revision of the definition, objects the number of Reader.Changed for its objects; both are from before the look.
	definition, objects int64
	at                  time.Time
}

// keepDefinitions returns the chore of a definitionKeeper, nil where CustomResourceDefinitions are not served.
func (p *Plane) keepDefinitions() *chore {
	t, ok := p.Registry.Catalog().Type(definitionsResource)
	if !ok || p.Definitions == nil {
		return nil
	}
	manager, err := t.ServerManager("status")
	if err != nil {
		p.Logger.Error("custom resource definitions cannot be maintained", "error", err)
		return nil
	}
	k := &definitionKeeper{Plane: p, t: t, manager: manager, after: map[string]string{}, looks: map[string]look{}}
	return &chore{name: "custom resource definitions", follow: []resources.Key{{Resource: definitionsResource}}, do: k.do}
}

// do handles the definitions that have changed, and those that may get a name as a result.
func (k *definitionKeeper) do(ctx context.Context, events []*resources.Event) (again time.Duration, err error) {
	all := k.Store.Changed(definitionsResource)
	if err := k.Definitions.Seen(ctx); err != nil {
		return 0, err
	}
	// Without events, any change is possible; but none is when the objects of a definition are looked at again.
	freed := events == nil && all != k.settled || slices.ContainsFunc(events, freesNames)
	changed := map[string]bool{}
	for _, e := range events {
		changed[e.Object.Name] = true
	}
	k.more = false
	var errs []error
	leaving, waiting := k.Definitions.Unfinished()
	for _, name := range leaving {
		left, err := k.lookAt(ctx, name)
		if errs = append(errs, err); left {
			again = k.pause()
		}
	}
	for _, name := range waiting {
		if freed || changed[name] {
			errs = append(errs, k.settle(ctx, name))
		}
	}
	maps.DeleteFunc(k.looks, func(name string, _ look) bool {
		_, stays := slices.BinarySearch(leaving, name)
		return !stays
	})
	err = errors.Join(errs...)
	if events == nil && err == nil {
		k.settled = all
	}
	return again, err
}

// lookAt finishes a definition, unless it waits for objects and neither it nor one of them has changed since the last look. left: finalizers
// still keep some of them.
func (k *definitionKeeper) lookAt(ctx context.Context, name string) (left bool, err error) {
	now := look{objects: k.Store.Changed(name), at: time.Now()} // a definition has the name of its resource
	if o, err := k.Store.Get(ctx, k.t.KeyOf("", name), resources.At{Match: resources.Any}); err == nil {
		now.definition = o.Revision
	}
	last, looked := k.looks[name]
	if looked && last.definition == now.definition && last.objects == now.objects && now.at.Sub(last.at) < patience {
		return true, nil
	}
	delete(k.looks, name)
	if left, err = k.finish(ctx, name); left && err == nil {
		k.looks[name] = now
	}
	return left, err
}

// pause is the time until the next turn while objects are left.
func (k *definitionKeeper) pause() time.Duration {
	if k.more {
		return time.Nanosecond
	}
	return instancesLeft
}

// freesNames tells whether an event may have released names.
func freesNames(e *resources.Event) bool {
	if e.Op == resources.Delete || e.Prev == nil {
		return e.Op == resources.Delete
	}
	const names = "status.acceptedNames"
	return gjson.GetBytes(e.Object.Data, names).Raw != gjson.GetBytes(e.Prev.Data, names).Raw
}

// settle writes a definition unchanged: the write itself assigns the names that are free.
func (k *definitionKeeper) settle(ctx context.Context, name string) error {
	r := resources.UpdateRequest{Type: k.t, Name: name, Change: func(_ context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
		if live == nil {
			return nil, resources.ErrNotFound
		}
		return existing.DeepCopyObject(), nil
	}}
	key := k.t.KeyOf("", name)
	_, _, err := k.Pipeline.Update(resources.APIServer.Request(ctx, "update", k.t, key), &r)
	if err = resources.UnlessGone(ctx, k.Store, key, "", 0, err); err != nil {
		return fmt.Errorf("names of %s: %w", name, err)
	}
	return nil
}

// finish completes the deletion of a definition. left: finalizers still keep some of its objects.
func (k *definitionKeeper) finish(ctx context.Context, name string) (left bool, err error) {
	o, err := k.Store.Get(ctx, k.t.KeyOf("", name), resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	hub, err := k.t.DecodeHub(o)
	if err != nil {
		return false, err
	}
	crd, ok := hub.(*apiextensions.CustomResourceDefinition)
	if !ok || crd.DeletionTimestamp == nil || !apiextensions.CRDHasFinalizer(crd, apiextensions.CustomResourceCleanupFinalizer) {
		return false, nil
	}
	if c := apiextensions.FindCRDCondition(crd, apiextensions.Terminating); c == nil || c.Reason == "InstanceDeletionPending" {
		if err := k.write(ctx, crd, deletionInProgress(), false); err != nil {
			return false, err
		}
	}
	end := deletionState(apiextensions.ConditionFalse, "NeverEstablished", "resource was never established")
	if k.Definitions.BuiltIn(crd.Spec.Names.Plural + "." + crd.Spec.Group) {
		end = deletionState(apiextensions.ConditionFalse, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
	} else if apiextensions.IsCRDConditionTrue(crd, apiextensions.Established) {
		end, err = k.empty(ctx, crd)
		if expected := (*resources.ExpectationError)(nil); errors.As(err, &expected) {
			return true, nil // another server has written the definition: try again
		}
		if err != nil {
			end = deletionState(apiextensions.ConditionTrue, "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", err))
		}
	}
	left = end.Status == apiextensions.ConditionTrue
	return left, errors.Join(err, k.write(ctx, crd, end, !left))
}

func deletionState(status apiextensions.ConditionStatus, reason, message string) apiextensions.CustomResourceDefinitionCondition {
	return apiextensions.CustomResourceDefinitionCondition{Type: apiextensions.Terminating, Status: status, Reason: reason, Message: message}
}

// deletionInProgress is the condition of a deletion that has begun. Every deletion shows it, so the DELETED event has it, too.
func deletionInProgress() apiextensions.CustomResourceDefinitionCondition {
	return deletionState(apiextensions.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
}

// empty deletes objects of a definition, and returns the condition that describes the result.
func (k *definitionKeeper) empty(ctx context.Context, crd *apiextensions.CustomResourceDefinition) (end apiextensions.CustomResourceDefinitionCondition, err error) {
	resource := crd.Status.AcceptedNames.Plural + "." + crd.Spec.Group
	objects, last, left, err := k.instances(ctx, resource, k.after[resource])
	if err != nil {
		return end, err
	}
	delete(k.after, resource)
	if left {
		t, err := k.storedType(ctx, crd.Name)
		if err != nil {
			return end, err
		}
		for _, namespace := range slices.Sorted(maps.Keys(objects)) {
			err = errors.Join(err, k.deleteAll(ctx, t, namespace, objects[namespace]))
		}
		if err != nil {
			k.after[resource] = last // one that cannot be deleted must not keep those after it
			return end, err
		}
		if objects, _, left, err = k.instances(ctx, resource, ""); err != nil {
			return end, err
		}
		more := len(objects) > 0
		k.more = k.more || more
		if left {
			if more || time.Since(crd.DeletionTimestamp.Time) < patience {
				return deletionInProgress(), nil
			}
			return deletionState(apiextensions.ConditionTrue, "InstanceDeletionCheck",
				"could not confirm zero CustomResources remaining: timed out waiting for the condition"), nil
		}
	}
	return deletionState(apiextensions.ConditionFalse, "InstanceDeletionCompleted", "removed all instances"), nil
}

// storedType returns the current type of a definition, including this keeper's own writes.
func (k *definitionKeeper) storedType(ctx context.Context, name string) (*resources.Type, error) {
	if err := k.Definitions.Latest(ctx); err != nil {
		return nil, err
	}
	t, ok := k.Definitions.StoredType(name)
	if !ok {
		return nil, fmt.Errorf("unable to find a custom resource client for %s", name)
	}
	return t, nil
}

// instances returns the first objects of a resource after a path that no deletion has marked, by namespace, and the path of the last of them. left:
// there are objects, marked or not, wherever they are. Where there are none after the path, it begins at the first object.
func (k *definitionKeeper) instances(ctx context.Context, resource, after string) (objects map[string][]*resources.Object, last string, left bool, err error) {
	all, err := k.Store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, "", false, err
	}
	objects = map[string][]*resources.Object{}
	n := 0
	take := func(o *resources.Object) bool {
		if !o.Terminating() { // finalizers keep the others
			objects[o.Namespace] = append(objects[o.Namespace], o)
			n, last = n+1, o.Path()
		}
		return n < instancesPerTurn
	}
	if all.Ascend("", after, take); n == 0 && after != "" {
		all.Ascend("", "", take)
	}
	return objects, last, all.Count("", "") > 0, nil
}

func (k *definitionKeeper) deleteAll(ctx context.Context, t *resources.Type, namespace string, objects []*resources.Object) error {
	r := resources.CollectionRequest{Type: t, Options: &metav1.DeleteOptions{}, Select: func() ([]*resources.Object, error) { return objects, nil }}
	return k.Pipeline.DeleteInstances(resources.APIServer.Request(ctx, "deletecollection", t, t.KeyOf(namespace, "")), &r)
}

// write writes the condition Terminating of a definition. gone: its objects are gone, so its finalizer is removed.
func (k *definitionKeeper) write(ctx context.Context, crd *apiextensions.CustomResourceDefinition, c apiextensions.CustomResourceDefinitionCondition, gone bool) error {
	r := resources.UpdateRequest{Type: k.t, Name: crd.Name, UID: crd.UID,
		Change: func(_ context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
			if live == nil {
				return nil, resources.ErrNotFound
			}
			now := existing.DeepCopyObject().(*apiextensions.CustomResourceDefinition)
			if old := apiextensions.FindCRDCondition(now, c.Type); old == nil || !apiextensions.IsCRDConditionEquivalent(old, &c) {
				apiextensions.SetCRDCondition(now, c)
			}
			if gone {
				apiextensions.CRDRemoveFinalizer(now, apiextensions.CustomResourceCleanupFinalizer)
			}
			return k.manager.Update(existing, now, resources.ServerManagerName), nil
		}}
	key := k.t.KeyOf("", crd.Name)
	_, _, err := k.Pipeline.Update(resources.APIServer.Request(ctx, "update", k.t, key, "status"), &r)
	if err = resources.UnlessGone(ctx, k.Store, key, crd.UID, 0, err); err != nil {
		return fmt.Errorf("status of %s: %w", crd.Name, err)
	}
	return nil
}
