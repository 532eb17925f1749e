package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

const apiServicesResource = "apiservices.apiregistration.k8s.io"

// automanaged is the label of APIServices that a server makes of itself, by kube-aggregator's name. Its value says when
// they are put right: at every start of a server, or always.
const (
	automanaged        = "kube-aggregator.kubernetes.io/automanaged"
	automanagedOnStart = "onstart"
	automanagedAlways  = "true"
)

// apiServices are the APIService objects for the versions that this server serves itself: one for each but for that of
// the APIServices.
type apiServices struct {
	plane *Plane
	t     *resources.Type
	want  map[string]apiregistration.APIServiceSpec
	// defined are those of versions that definitions define: they come back when they are deleted.
	defined map[string]bool
}

// newAPIServices says which there should be by a catalog, and returns nil where APIServices are not served.
func (p *Plane) newAPIServices(catalog *resources.Catalog) *apiServices {
	t, ok := catalog.Type(apiServicesResource)
	if !ok {
		return nil
	}
	a := &apiServices{plane: p, t: t, want: map[string]apiregistration.APIServiceSpec{}, defined: map[string]bool{}}
	for _, g := range catalog.Groups() {
		for _, v := range g.Versions {
			if g.Name != t.Group {
				name := v.Version + "." + g.Name
				a.want[name] = apiregistration.APIServiceSpec{Group: g.Name, Version: v.Version,
					GroupPriorityMinimum: int32(g.Priority), VersionPriority: int32(v.Priority)}
				a.defined[name] = !slices.ContainsFunc(v.Resources, func(s *resources.Served) bool { return s.Requires == nil })
			}
		}
	}
	return a
}

// bootstrapAPIServices makes the APIServices that are missing, and puts right or removes those that a server made and
// that are not as this one would have them. That is done at a start and not again: what a user does to them afterwards
// stays until then, and servers that serve different versions do not undo each other's work for ever.
func (p *Plane) bootstrapAPIServices(ctx context.Context, group *errgroup.Group) error {
	a := p.newAPIServices(p.Registry.Catalog())
	if a == nil {
		return nil
	}
	manager, err := a.t.ServerManager("")
	if err != nil {
		return err
	}
	right := map[string]bool{}
	err = a.each(ctx, func(is *apiregistration.APIService) error {
		want, wanted := a.want[is.Name]
		switch managed := is.Labels[automanaged]; {
		case managed != automanagedOnStart && managed != automanagedAlways, wanted && apiequality.Semantic.DeepEqual(is.Spec, want):
			right[is.Name] = true
		case !wanted:
			group.Go(func() error { return a.remove(ctx, is) })
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name, spec := range a.want {
		if !right[name] {
			group.Go(func() error { return a.put(ctx, manager, name, spec) })
		}
	}
	return nil
}

// each calls f with every APIService there is.
func (a *apiServices) each(ctx context.Context, f func(*apiregistration.APIService) error) (err error) {
	all, err := a.plane.Store.Snapshot(ctx, a.t.ResourceName(), resources.At{Match: resources.MostRecent})
	if err != nil {
		return err
	}
	all.Ascend("", "", func(o *resources.Object) bool {
		var obj runtime.Object
		if obj, err = a.t.DecodeHub(o); err == nil {
			err = f(obj.(*apiregistration.APIService))
		}
		return err == nil
	})
	return err
}

func (a *apiServices) put(ctx context.Context, manager *fieldmanager.Manager, name string, spec apiregistration.APIServiceSpec) error {
	return a.plane.ensureBy(ctx, a.t, manager, resources.ServerManagerName, "", name, func(exists bool, obj runtime.Object) error {
		is := obj.(*apiregistration.APIService)
		if !exists {
			is.Labels = map[string]string{automanaged: automanagedOnStart}
			if a.defined[name] {
				is.Labels[automanaged] = automanagedAlways
			}
		}
		is.Spec = spec
		return nil
	})
}

func (a *apiServices) remove(ctx context.Context, is *apiregistration.APIService) error {
	r := resources.DeleteRequest{Type: a.t, Name: is.Name, Options: metav1.NewPreconditionDeleteOptions(string(is.UID))}
	_, err := a.plane.Pipeline.Delete(resources.APIServer.Request(ctx, "delete", a.t, a.t.KeyOf("", is.Name)), &r)
	if err != nil && !goneMeanwhile(err) {
		return fmt.Errorf("delete %s %s: %w", a.t.Resource, is.Name, err)
	}
	return nil
}

// goneMeanwhile: an object that was read is not there any more, or another.
func goneMeanwhile(err error) bool {
	return errors.Is(err, resources.ErrNotFound) || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}

// keepAPIServices removes APIServices that claim to be kept by a server and are not, and keeps the status of those
// without a Service: what they stand for is served here. What is served may change meanwhile.
func (p *Plane) keepAPIServices() *chore {
	if p.newAPIServices(p.Registry.Catalog()) == nil {
		return nil
	}
	return &chore{name: "APIServices", follow: []resources.Key{{Resource: apiServicesResource}},
		changed: func() <-chan struct{} { return p.Registry.Catalog().Replaced() },
		do: func(ctx context.Context, _ []*resources.Event) (time.Duration, error) {
			a := p.newAPIServices(p.Registry.Catalog())
			if a == nil {
				return 0, nil
			}
			// What is there is read before what is defined: an APIService is written with the definition that it is for.
			var there []*apiregistration.APIService
			err := a.each(ctx, func(is *apiregistration.APIService) error {
				there = append(there, is)
				return nil
			})
			if err == nil && p.Definitions != nil {
				err = p.Definitions.Latest(ctx)
			}
			if err != nil {
				return 0, err
			}
			catalog := p.Registry.Catalog()
			if a = p.newAPIServices(catalog); a == nil {
				return 0, nil
			}
			return 0, a.keep(ctx, there, func() bool { return p.Registry.Catalog() == catalog })
		}}
}

// keep puts right what is kept right all the time. What is no longer current is kept anew by the next turn.
func (a *apiServices) keep(ctx context.Context, all []*apiregistration.APIService, current func() bool) error {
	there := map[string]bool{}
	var err error
	for _, is := range all {
		there[is.Name] = true
		switch _, wanted := a.want[is.Name]; {
		case err != nil:
		case !wanted && is.Labels[automanaged] == automanagedAlways:
			err = a.remove(ctx, is)
		case a.defined[is.Name] && is.Spec.Service != nil && is.Labels[automanaged] == automanagedAlways:
			err = a.restore(ctx, is.Name, current)
		case is.Spec.Service == nil && !localAvailable(is.DeepCopy()):
			err = a.markLocal(ctx, is.Name)
		}
	}
	for name, defined := range a.defined {
		if defined && !there[name] && err == nil {
			err = a.restore(ctx, name, current)
		}
	}
	return err
}

// restore makes an APIService of a version that is defined as it is to be, if that is still so. Of those without the label, which a
// user has made, kube-apiserver leaves every one alone: what is defined is served by the Service then.
func (a *apiServices) restore(ctx context.Context, name string, current func() bool) error {
	if !current() {
		return nil
	}
	manager, err := a.t.ServerManager("")
	if err != nil {
		return err
	}
	return a.put(ctx, manager, name, a.want[name])
}

// localAvailable gives an APIService the condition of one without a Service, and tells whether it had it.
func localAvailable(is *apiregistration.APIService) bool {
	before := is.Status.DeepCopy()
	apiregistration.SetAPIServiceCondition(is, apiregistration.NewLocalAvailableAPIServiceCondition())
	return apiequality.Semantic.DeepEqual(before, &is.Status)
}

func (a *apiServices) markLocal(ctx context.Context, name string) error {
	manager, err := a.t.ServerManager("status")
	if err != nil {
		return err
	}
	r := resources.UpdateRequest{Type: a.t, Name: name}
	r.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		is := existing.DeepCopyObject().(*apiregistration.APIService)
		if is.Spec.Service != nil || localAvailable(is) {
			return is, nil
		}
		return manager.Update(existing, is, resources.ServerManagerName), nil
	}
	_, _, err = a.plane.Pipeline.Update(resources.APIServer.Request(ctx, "update", a.t, a.t.KeyOf("", name), "status"), &r)
	if err != nil && !goneMeanwhile(err) {
		return fmt.Errorf("status of %s %s: %w", a.t.Resource, name, err)
	}
	return nil
}
