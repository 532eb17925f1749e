package controlplane

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/ensurer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

const (
	flowsResource  = "flowschemas.flowcontrol.apiserver.k8s.io"
	levelsResource = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
)

// flowObjects is the configuration of priority and fairness (KEP-1040) that kube-apiserver creates at the start and
// maintains. Upstream's code defines which objects exist, which of them users may change, and how users declare it.
type flowObjects struct {
	levels, flows ensured
	status        *fieldmanager.Manager
	marks         flowMarks
	// writes counts the attempted writes.
	writes atomic.Int64
}

// During a rolling update, servers of two releases on one database may want different objects. A server does
// ensureBurst repairs at once, and further ones at intervals; kube-apiserver checks once a minute.
const (
	ensureBurst = 10
	ensurePause = 10 * time.Second
)

// newFlowObjects returns nil where the types are not served.
func (p *Plane) newFlowObjects() (*flowObjects, error) {
	catalog := p.Registry.Catalog()
	levels, ok := catalog.Type(levelsResource)
	flows, ok2 := catalog.Type(flowsResource)
	if !ok || !ok2 {
		return nil, nil
	}
	f := &flowObjects{marks: flowMarks{}}
	var err error
	local, localFlows := ensurer.NewPriorityLevelConfigurationOps(nil, nil), ensurer.NewFlowSchemaOps(nil, nil)
	if f.levels, err = newEnsured(p, levels, &f.writes, local, bootstrap.MandatoryPriorityLevelConfigurations,
		bootstrap.SuggestedPriorityLevelConfigurations); err != nil {
		return nil, err
	}
	if f.flows, err = newEnsured(p, flows, &f.writes, localFlows, bootstrap.MandatoryFlowSchemas,
		bootstrap.SuggestedFlowSchemas); err != nil {
		return nil, err
	}
	f.status, err = flows.ServerManager("status")
	return f, err
}

// bootstrapFlows creates the configuration at the start. It marks the FlowSchemas at once as having their priority
// levels, because the server creates those at the same time.
func (p *Plane) bootstrapFlows(ctx context.Context, all group) error {
	f, err := p.newFlowObjects()
	if err != nil || f == nil {
		return err
	}
	f.levels.each(func(_ string, ensure func(context.Context) error) {
		all.Go(func() error { return ensure(ctx) })
	})
	f.flows.each(func(name string, ensure func(context.Context) error) {
		all.Go(func() error {
			if err := ensure(ctx); err != nil {
				return err
			}
			if marked, err := p.isMarked(ctx, name); marked || err != nil {
				return err
			}
			return p.markFlow(ctx, f.status, name, func(string) bool { return true }, func(now *flowcontrol.FlowSchema) bool {
				return len(now.Status.Conditions) == 0
			})
		})
	})
	return nil
}

// keepFlows recreates deleted objects and reverts changes, unless users may make them and have declared it. It removes
// objects of an earlier release, and sets the status of every FlowSchema to whether its priority level exists.
func (p *Plane) keepFlows() *chore {
	f, err := p.newFlowObjects()
	if f == nil && err == nil {
		return nil
	}
	turns := rate.NewLimiter(rate.Every(ensurePause), ensureBurst)
	c := &chore{name: "FlowSchemas and PriorityLevelConfigurations",
		follow: []resources.Key{{Resource: flowsResource}, {Resource: levelsResource}}}
	c.do = func(ctx context.Context, _ []*resources.Event) (time.Duration, error) {
		if err != nil {
			return 0, err
		}
		// What users have configured is in force whether or not the server's own objects can be written.
		var refused refusals
		again, err := f.ensure(ctx, turns, time.Now())
		err = refused.pass(err)
		// A client that reads the status may rely on the FlowSchema: the status is set only once the FlowSchema is in force.
		schemas, levels, failed := p.useFlows(ctx)
		if err = errors.Join(err, failed); err != nil {
			return 0, err
		}
		marked, err := p.markFlows(ctx, f, schemas, levels, time.Now())
		if err = refused.pass(err); err != nil {
			return 0, err
		}
		if err := refused.err(); err != nil {
			p.Logger.Warn("FlowSchemas or PriorityLevelConfigurations could not be repaired: the write was refused", "error", err)
			again = sooner(again, refusedAgain)
		}
		return sooner(again, marked), nil
	}
	return c
}

// ensure repairs the objects, unless recent repairs were so frequent that it has to wait; then it returns for how long.
// A run that writes nothing does not count as a repair. A refused repair does not stop the others.
func (f *flowObjects) ensure(ctx context.Context, turns *rate.Limiter, now time.Time) (again time.Duration, err error) {
	turn := turns.ReserveN(now, 1)
	if again = turn.DelayFrom(now); again > 0 {
		turn.CancelAt(now)
		return again, nil
	}
	before := f.writes.Load()
	var refused refusals
	err = atOnce(ctx, &refused, func(ctx context.Context, all group) error {
		for _, objects := range []ensured{f.levels, f.flows} {
			objects.each(func(_ string, ensure func(context.Context) error) {
				all.Go(func() error { return ensure(ctx) })
			})
			all.Go(func() error { return objects.removeUnwanted(ctx) })
		}
		return nil
	})
	if f.writes.Load() == before {
		turn.CancelAt(now)
	}
	if err != nil {
		return 0, err
	}
	return 0, refused.err()
}

// ensured are the objects of one type that have to exist.
type ensured struct {
	each           func(f func(name string, ensure func(context.Context) error))
	removeUnwanted func(context.Context) error
}

// configObject is the constraint that upstream's ensurer puts on a type, which it does not export.
type configObject interface {
	comparable
	metav1.Object
	runtime.Object
}

func newEnsured[T configObject](p *Plane, t *resources.Type, writes *atomic.Int64, local ensurer.ObjectOps[T],
	mandatory, suggested []T) (e ensured, err error) {
	objects := configObjects[T]{plane: p, t: t, writes: writes}
	if objects.manager, err = t.ServerManager(""); err != nil {
		return e, err
	}
	ops := ensurer.NewObjectOps(objects, objects, local.DeepCopy, local.ReplaceSpec, local.SpecEqualish)
	e.each = func(f func(string, func(context.Context) error)) {
		for _, want := range suggested {
			f(want.GetName(), func(ctx context.Context) error {
				return ensurer.EnsureConfiguration(ctx, ops, want, ensurer.NewSuggestedEnsureStrategy[T]())
			})
		}
		for _, want := range mandatory {
			f(want.GetName(), func(ctx context.Context) error {
				return ensurer.EnsureConfiguration(ctx, ops, want, ensurer.NewMandatoryEnsureStrategy[T]())
			})
		}
	}
	e.removeUnwanted = func(ctx context.Context) error {
		return ensurer.RemoveUnwantedObjects(ctx, ops, slices.Concat(mandatory, suggested))
	}
	return e, nil
}

// configObjects is the lister and the client for upstream's rules. It reads from the watch cache; when that is behind, a
// write fails (already exists, conflict).
type configObjects[T configObject] struct {
	plane   *Plane
	t       *resources.Type
	manager *fieldmanager.Manager
	writes  *atomic.Int64
}

// Get returns the object with a name.
func (c configObjects[T]) Get(name string) (obj T, err error) {
	o, err := c.plane.Store.Get(context.Background(), c.t.KeyOf("", name), resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		return obj, apierrors.NewNotFound(c.t.GroupResource, name)
	}
	if err != nil {
		return obj, err
	}
	return decodeAs[T](c.t, o)
}

func decodeAs[T configObject](t *resources.Type, o *resources.Object) (obj T, err error) {
	decoded, err := t.DecodeStored(o)
	if err != nil {
		return obj, err
	}
	obj = decoded.(T)
	obj.SetResourceVersion(resources.FormatRevision(o.Revision))
	return obj, nil
}

// List returns all objects and ignores the selector, since its callers always ask for all.
func (c configObjects[T]) List(labels.Selector) (all []T, err error) {
	return listAs[T](context.Background(), c.plane.Store, c.t)
}

// listAs returns all objects of a type from the watch cache.
func listAs[T configObject](ctx context.Context, store resources.Reader, t *resources.Type) (all []T, err error) {
	snapshot, err := store.Snapshot(ctx, t.ResourceName(), resources.At{Match: resources.Any})
	if err != nil {
		return nil, err
	}
	snapshot.Ascend("", "", func(o *resources.Object) bool {
		var obj T
		if obj, err = decodeAs[T](t, o); err == nil {
			all = append(all, obj)
		}
		return err == nil
	})
	return all, err
}

func (c configObjects[T]) request(ctx context.Context, verb, name string) context.Context {
	return resources.APIServer.Request(ctx, verb, c.t, c.t.KeyOf("", name))
}

// Create stores a new object.
func (c configObjects[T]) Create(ctx context.Context, obj T, o metav1.CreateOptions) (T, error) {
	c.writes.Add(1)
	c.t.Scheme.Default(obj)
	hub, err := c.t.ToHub(obj)
	if err != nil {
		return obj, err
	}
	r := resources.CreateRequest{Type: c.t, Object: c.manager.Create(hub, o.FieldManager)}
	_, err = c.plane.Pipeline.Create(c.request(ctx, "create", obj.GetName()), &r)
	if apierrors.IsAlreadyExists(err) {
		// The caller's next Get has to see the object that another client created.
		if _, err := c.plane.Store.Get(ctx, c.t.KeyOf("", obj.GetName()), resources.At{Match: resources.MostRecent}); err != nil &&
			!errors.Is(err, resources.ErrNotFound) {
			return obj, err
		}
	}
	return obj, err
}

// Update replaces an object by one that was derived from it.
func (c configObjects[T]) Update(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	c.writes.Add(1)
	hub, err := c.t.ToHub(obj)
	if err != nil {
		return obj, err
	}
	r := resources.UpdateRequest{Type: c.t, Name: obj.GetName(),
		Change: func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
			return c.manager.Update(existing, hub.DeepCopyObject(), o.FieldManager), nil
		}}
	_, _, err = c.plane.Pipeline.Update(c.request(ctx, "update", obj.GetName()), &r)
	return obj, err
}

// Delete deletes an object.
func (c configObjects[T]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	c.writes.Add(1)
	_, err := c.plane.Pipeline.Delete(c.request(ctx, "delete", name), &resources.DeleteRequest{Type: c.t, Name: name, Options: &o})
	return err
}

// useFlows puts the stored FlowSchemas into force, and returns them and the priority levels. It does nothing where the
// types are not served.
func (p *Plane) useFlows(ctx context.Context) (schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration, err error) {
	catalog := p.Registry.Catalog()
	levelType, ok1 := catalog.Type(levelsResource)
	schemaType, ok2 := catalog.Type(flowsResource)
	if !ok1 || !ok2 {
		return nil, nil, nil
	}
	if levels, err = listAs[*flowcontrolv1.PriorityLevelConfiguration](ctx, p.Store, levelType); err != nil {
		return nil, nil, err
	}
	if schemas, err = listAs[*flowcontrolv1.FlowSchema](ctx, p.Store, schemaType); err != nil {
		return nil, nil, err
	}
	p.Front.UseFlows(schemas, levels)
	return schemas, levels, nil
}
