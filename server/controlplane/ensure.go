package controlplane

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// ensureAttempts bounds how often an object is read again while other clients create and delete it.
const ensureAttempts = 5

// wanted is an object that has to exist, in the form that change gives it.
type wanted struct {
	t               *resources.Type
	namespace, name string
	// change repairs an existing object, or fills in a new one that has only a name (both in the hub form). It may be called several
	// times.
	change func(exists bool, obj runtime.Object) error
	// manager owns the changed fields, under the name in by.
	manager *fieldmanager.Manager
	by      string
}

// ensure makes an object exist in the wanted form; see wanted.change. The server itself is the field manager of the changes.
func (p *Plane) ensure(ctx context.Context, t *resources.Type, namespace, name string, change func(exists bool, obj runtime.Object) error) error {
	manager, err := t.ServerManager("")
	if err != nil {
		return err
	}
	return p.ensureWanted(ctx, wanted{t, namespace, name, change, manager, resources.ServerManagerName})
}

// ensureWanted is ensure with a given field manager.
//
// An object that is right is only read. It needs no call of a webhook or a policy, which might refuse it, and leaves no event of a
// write without a change in the audit. kube-apiserver does the same.
func (p *Plane) ensureWanted(ctx context.Context, w wanted) (err error) {
	for range ensureAttempts {
		var live *resources.Object
		live, err = p.Store.Get(ctx, w.t.KeyOf(w.namespace, w.name), resources.At{Match: resources.MostRecent})
		switch {
		case errors.Is(err, resources.ErrNotFound):
			// Another server that starts at the same time creates the same object.
			if err = p.create(ctx, w); !apierrors.IsAlreadyExists(err) {
				return w.explain(err)
			}
		case err != nil:
			return w.explain(err)
		default:
			if err = p.putRight(ctx, w, live); !errors.Is(err, resources.ErrNotFound) && !apierrors.IsNotFound(err) {
				return w.explain(err)
			}
		}
	}
	return w.explain(err)
}

func (w wanted) explain(err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", w.t.Resource, w.name, err)
	}
	return nil
}

// create creates a missing object.
func (p *Plane) create(ctx context.Context, w wanted) error {
	obj := w.t.New()
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	m.SetNamespace(w.namespace)
	m.SetName(w.name)
	if err := w.change(false, obj); err != nil {
		return err
	}
	if obj, err = defaulted(w.t, obj); err != nil {
		return err
	}
	_, err = p.Pipeline.Create(resources.APIServer.Request(ctx, "create", w.t, w.t.KeyOf(w.namespace, w.name)),
		&resources.CreateRequest{Type: w.t, Object: w.manager.Create(obj, w.by)})
	return err
}

// putRight updates an existing object, unless it already has the wanted form.
func (p *Plane) putRight(ctx context.Context, w wanted, live *resources.Object) error {
	existing, err := w.t.DecodeHubInContext(ctx, live)
	if err != nil {
		return err
	}
	obj := existing.DeepCopyObject()
	if err := w.change(true, obj); err != nil || apiequality.Semantic.DeepEqual(existing, obj) {
		return err
	}
	r := resources.UpdateRequest{Type: w.t, Name: w.name}
	r.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		obj := existing.DeepCopyObject()
		if err := w.change(true, obj); err != nil {
			return nil, err
		}
		return w.manager.Update(existing, obj, w.by), nil
	}
	_, _, err = p.Pipeline.Update(resources.APIServer.Request(ctx, "update", w.t, w.t.KeyOf(w.namespace, w.name)), &r)
	return err
}

// defaulted converts a new object to its storage version and back, which sets its defaults.
func defaulted(t *resources.Type, hub runtime.Object) (runtime.Object, error) {
	versioned, err := t.ToVersion(hub, t.StorageVersion)
	if err != nil {
		return nil, err
	}
	t.Scheme.Default(versioned)
	return t.ToHub(versioned)
}
