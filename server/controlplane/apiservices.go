package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

const apiServicesResource = "apiservices.apiregistration.k8s.io"

// automanaged is kube-aggregator's label for APIServices that a server creates itself. Its value says when the server
// repairs them: at every start, or always.
const (
	automanaged        = "kube-aggregator.kubernetes.io/automanaged"
	automanagedOnStart = "onstart"
	automanagedAlways  = "true"
)

// apiServices are the APIService objects for the group versions that this server serves itself: one for each version
// except those of the APIServices' own group.
type apiServices struct {
	plane *Plane
	t     *resources.Type
	want  map[string]apiregistration.APIServiceSpec
	// defined marks the versions that CustomResourceDefinitions define. Their APIServices are recreated when they are
	// deleted and repaired when they are changed.
	defined map[string]bool
}

// newAPIServices derives the wanted APIServices from a catalog. It returns nil where the catalog does not serve APIServices.
func (p *Plane) newAPIServices(catalog *resources.Catalog) *apiServices {
	t, ok := catalog.Type(apiServicesResource)
	if !ok {
		return nil
	}
	groups := catalog.Groups()
	a := &apiServices{plane: p, t: t, want: make(map[string]apiregistration.APIServiceSpec, len(groups)), defined: make(map[string]bool, len(groups))}
	for _, g := range groups {
		for _, v := range g.Versions {
			if g.Name != t.Group {
				name := v.Version + "." + g.Name
				a.want[name] = apiregistration.APIServiceSpec{Group: g.Name, Version: v.Version,
					GroupPriorityMinimum: int32(g.Priority), VersionPriority: int32(v.Priority)}
				a.defined[name] = !slices.ContainsFunc(v.Resources, func(s *resources.Served) bool { return s.Requires == nil })
			}
		}
	}
	a.addClaimed()
	return a
}

// addClaimed adds the APIServices of versions that definitions claim. They get the priorities of CustomResourceDefinitions, also in a
// group that has other types, and they exist before the definition is established.
func (a *apiServices) addClaimed() {
	if a.plane.Definitions == nil {
		return
	}
	for _, g := range a.plane.Definitions.Claimed() {
		for _, v := range g.Versions {
			name := v.Version + "." + g.Name
			a.want[name] = apiregistration.APIServiceSpec{Group: g.Name, Version: v.Version,
				GroupPriorityMinimum: int32(g.Priority), VersionPriority: int32(v.Priority)}
			a.defined[name] = true
		}
	}
}

// bootstrapAPIServices creates the APIServices that are missing. It repairs or removes those that a server created and
// that this server would define otherwise. This happens only at a start: a user's later change stays until the next
// start, and servers that serve different versions do not revert each other's work for ever.
func (p *Plane) bootstrapAPIServices(ctx context.Context, all group) error {
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
			all.Go(func() error { return a.remove(ctx, is) })
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name, spec := range a.want {
		if !right[name] {
			all.Go(func() error { return a.put(ctx, manager, name, spec) })
		}
	}
	return nil
}

// each calls f with every stored APIService.
func (a *apiServices) each(ctx context.Context, f func(*apiregistration.APIService) error) (err error) {
	all, err := a.plane.Store.Snapshot(ctx, a.t.ResourceName(), resources.At{Match: resources.MostRecent})
	if err != nil {
		return err
	}
	all.Ascend("", "", func(o *resources.Object) bool {
		var is *apiregistration.APIService
		if is, err = a.decode(o); err == nil {
			err = f(is)
		}
		return err == nil
	})
	return err
}

func (a *apiServices) decode(o *resources.Object) (*apiregistration.APIService, error) {
	obj, err := a.t.DecodeHub(o)
	if err != nil {
		return nil, err
	}
	return obj.(*apiregistration.APIService), nil
}

func (a *apiServices) put(ctx context.Context, manager *fieldmanager.Manager, name string, spec apiregistration.APIServiceSpec) error {
	change := func(exists bool, obj runtime.Object) error {
		is := obj.(*apiregistration.APIService)
		switch managed := is.Labels[automanaged]; {
		case exists && managed != automanagedOnStart && managed != automanagedAlways:
			return nil // the label was removed: a user owns it now
		case !exists:
			is.Labels = map[string]string{automanaged: automanagedOnStart}
			if a.defined[name] {
				is.Labels[automanaged] = automanagedAlways
			}
		}
		is.Spec = spec
		return nil
	}
	return a.plane.ensureWanted(ctx, wanted{a.t, "", name, change, manager, resources.ServerManagerName})
}

func (a *apiServices) remove(ctx context.Context, is *apiregistration.APIService) error {
	r := resources.DeleteRequest{Type: a.t, Name: is.Name, Options: metav1.NewPreconditionDeleteOptions(string(is.UID))}
	key := a.t.KeyOf("", is.Name)
	_, err := a.plane.Pipeline.Delete(resources.APIServer.Request(ctx, "delete", a.t, key), &r)
	if err = resources.UnlessGone(ctx, a.plane.Store, key, is.UID, 0, err); err != nil {
		return fmt.Errorf("delete %s %s: %w", a.t.Resource, is.Name, err)
	}
	return nil
}

func (a *apiServices) removeStored(ctx context.Context, o *resources.Object) error {
	is, err := a.decode(o)
	if err != nil {
		return err
	}
	return a.remove(ctx, is)
}

// keepAPIServices removes APIServices with the label value automanagedAlways whose versions are no longer served, and
// restores those of definitions. It keeps the status of APIServices without a Service, whose versions this server serves.
// The served versions may change meanwhile.
func (p *Plane) keepAPIServices() *chore {
	if _, served := p.Registry.Catalog().Type(apiServicesResource); !served {
		return nil
	}
	known := knownAPIServices{}
	return &chore{name: "APIServices", sparing: true, longest: refusedAgain, follow: []resources.Key{{Resource: apiServicesResource}},
		changed: func() <-chan struct{} { return p.Registry.Catalog().Replaced() },
		do: func(ctx context.Context, _ []*resources.Event) (time.Duration, error) {
			// APIServices are read before definitions: an APIService is written after the definition that it belongs to.
			all, err := p.Store.Snapshot(ctx, apiServicesResource, resources.At{Match: resources.MostRecent})
			if err == nil && p.Definitions != nil {
				err = p.Definitions.Latest(ctx)
			}
			if err != nil {
				return 0, err
			}
			catalog := p.Registry.Catalog()
			a := p.newAPIServices(catalog)
			if a == nil {
				return 0, nil
			}
			return 0, a.keep(ctx, all, known, func() bool { return p.Registry.Catalog() == catalog })
		}}
}

// knownAPIServices caches, by name, the state of the APIServices. There is one for each served version, and each definition changes only
// one of them: the others are not decoded again.
type knownAPIServices map[string]apiServiceState

// apiServiceState is the state of an APIService at a revision.
type apiServiceState struct {
	revision int64
	spec     apiregistration.APIServiceSpec
	// always: the label says that a server keeps it. available: it has no Service, and it has the condition Available of a local APIService.
	always, available bool
}

func (s apiServiceState) remote() bool { return s.spec.Service != nil }

// of returns the state of an APIService.
func (k knownAPIServices) of(a *apiServices, o *resources.Object) (apiServiceState, error) {
	if s, ok := k[o.Name]; ok && s.revision == o.Revision {
		return s, nil
	}
	is, err := a.decode(o)
	if err != nil {
		return apiServiceState{}, err
	}
	s := apiServiceState{revision: o.Revision, spec: is.Spec, always: is.Labels[automanaged] == automanagedAlways}
	s.available = !s.remote() && localAvailable(is.DeepCopy())
	k[o.Name] = s
	return s, nil
}

// keep repairs the APIServices that are kept all the time. If the catalog is no longer current, the next turn does the rest. An APIService that
// cannot be repaired does not stop the repair of the others: the error makes the next turn try it again.
func (a *apiServices) keep(ctx context.Context, all resources.Snapshot, known knownAPIServices, current func() bool) error {
	var wrong error
	there := make(map[string]bool, len(known)+1)
	all.Ascend("", "", func(o *resources.Object) bool {
		there[o.Name] = true
		wrong = errors.Join(wrong, a.repair(ctx, o, known, current))
		return !lost(ctx, wrong)
	})
	if lost(ctx, wrong) {
		return wrong
	}
	maps.DeleteFunc(known, func(name string, _ apiServiceState) bool { return !there[name] })
	var missing []string
	for name, defined := range a.defined {
		if defined && !there[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing) // so that the same errors read the same
	for _, name := range missing {
		if wrong = errors.Join(wrong, a.restore(ctx, name, current)); lost(ctx, wrong) {
			return wrong
		}
	}
	return wrong
}

// repair repairs an APIService, if it is kept and not right.
func (a *apiServices) repair(ctx context.Context, o *resources.Object, known knownAPIServices, current func() bool) error {
	s, err := known.of(a, o)
	if err != nil {
		return err
	}
	switch want, wanted := a.want[o.Name]; {
	case !wanted && s.always:
		return a.removeStored(ctx, o)
	case a.defined[o.Name] && s.always && !apiequality.Semantic.DeepEqual(s.spec, want):
		return a.restore(ctx, o.Name, current)
	case !s.remote() && !s.available:
		return a.markLocal(ctx, o.Name)
	}
	return nil
}

// restore creates or repairs the APIService of a defined version, if the catalog is still current. It leaves APIServices without
// the label alone, as kube-apiserver does: a user has created such an APIService, and its Service then serves the version.
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

// localAvailable sets the condition Available of an APIService without a Service, and tells whether it was set before.
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
	key := a.t.KeyOf("", name)
	_, _, err = a.plane.Pipeline.Update(resources.APIServer.Request(ctx, "update", a.t, key, "status"), &r)
	if err = resources.UnlessGone(ctx, a.plane.Store, key, "", 0, err); err != nil {
		return fmt.Errorf("status of %s %s: %w", a.t.Resource, name, err)
	}
	return nil
}
