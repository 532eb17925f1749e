package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// systemNamespaces exist from the start, and again when one was removed.
var systemNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// Bootstrap makes the objects that clients count on; it comes before Serve. Several servers may do so at once.
//
// They are written all at once, so that the store puts them into few transactions. What is as it should be is not
// touched, so that a later start costs nothing.
func (p *Plane) Bootstrap(ctx context.Context) error {
	// Admission lets nothing into a namespace that is not there.
	if err := atOnce(ctx, p.bootstrapNamespaces); err != nil {
		return err
	}
	objects := []func(context.Context, *errgroup.Group) error{p.bootstrapAPIServices, p.bootstrapConfigMaps, p.bootstrapFlows, p.bootstrapClasses}
	if !p.NoRBAC {
		objects = append(objects, p.bootstrapRoles)
	}
	if err := atOnce(ctx, objects...); err != nil {
		return err
	}
	if _, _, err := p.useFlows(ctx); err != nil {
		return err
	}
	p.Front.Finish(bootstrapHooks(!p.NoRBAC)...)
	if p.ClientAuthorities != nil {
		p.Front.Finish(authorityHook)
	}
	return nil
}

// bootstrapHooks are the names that kube-apiserver has for what Bootstrap does.
func bootstrapHooks(rbac bool) []string {
	hooks := []string{"start-system-namespaces-controller"}
	if rbac {
		hooks = append(hooks, "rbac/bootstrap-roles")
	}
	return append(hooks, "start-legacy-token-tracking-controller", "scheduling/bootstrap-system-priority-classes",
		"priority-and-fairness-config-consumer", "priority-and-fairness-config-producer", "start-service-ip-repair-controllers",
		"apiservice-status-local-available-controller", "apiservice-status-remote-available-controller", "apiservice-registration-controller",
		"kube-apiserver-autoregistration", "priority-and-fairness-filter")
}

const authorityHook = "start-cluster-authentication-info-controller"

// serviceHooks are those of what BootstrapServices does.
var serviceHooks = []string{"start-kubernetes-service-cidr-controller", "bootstrap-controller"}

// Hooks are the parts of the start that Bootstrap and BootstrapServices finish in a whole server. rbac: its policy is one of them.
func Hooks(rbac bool) []string {
	return slices.Concat(bootstrapHooks(rbac), []string{authorityHook}, serviceHooks)
}

// atOnce does what all functions put into a group.
func atOnce(ctx context.Context, functions ...func(context.Context, *errgroup.Group) error) error {
	group, gctx := errgroup.WithContext(ctx)
	for _, f := range functions {
		if err := f(gctx, group); err != nil {
			return errors.Join(err, group.Wait())
		}
	}
	return group.Wait()
}

// chores are what a server keeps right while it runs, whatever is served; nil where there is nothing to. See upkeeps for the rest.
func (p *Plane) chores() []*chore {
	return []*chore{p.keepNamespaces(), p.keepTracking(), p.keepTrust(), p.keepDefinitions()}
}

func (p *Plane) bootstrapNamespaces(ctx context.Context, group *errgroup.Group) error {
	t, ok := p.Registry.Catalog().Type("namespaces")
	if !ok {
		return nil
	}
	for _, name := range systemNamespaces {
		group.Go(func() error {
			return p.ensure(ctx, t, "", name, func(exists bool, obj runtime.Object) error {
				if exists {
					return nil
				}
				m, err := meta.Accessor(obj)
				if err == nil {
					m.SetLabels(map[string]string{"kubernetes.io/metadata.name": name})
				}
				return err
			})
		})
	}
	return nil
}

// keepNamespaces brings back a namespace of the system that was deleted.
func (p *Plane) keepNamespaces() *chore {
	c := &chore{name: "the system's namespaces"}
	for _, name := range systemNamespaces {
		c.follow = append(c.follow, resources.Key{Resource: "namespaces", Name: name})
	}
	c.do = func(ctx context.Context, events []*resources.Event) (time.Duration, error) {
		if events != nil && !slices.ContainsFunc(events, isDeletion) {
			return 0, nil
		}
		return 0, atOnce(ctx, p.bootstrapNamespaces)
	}
	return c
}

// ensure sees to it that an object is there and as it should be: change puts it right, or fills in a new one that has
// nothing but a name. The server itself is the manager of the fields that change.
func (p *Plane) ensure(ctx context.Context, t *resources.Type, namespace, name string, change func(exists bool, obj runtime.Object) error) error {
	manager, err := t.ServerManager("")
	if err != nil {
		return err
	}
	return p.ensureBy(ctx, t, manager, resources.ServerManagerName, namespace, name, change)
}

// ensureBy is ensure with a field manager that is at hand, and another name for it.
func (p *Plane) ensureBy(ctx context.Context, t *resources.Type, manager *fieldmanager.Manager, by, namespace, name string,
	change func(exists bool, obj runtime.Object) error) error {
	r := resources.UpdateRequest{Type: t, Name: name, ForceCreate: true}
	r.Change = func(_ context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
		obj := existing.DeepCopyObject()
		if live != nil {
			if err := change(true, obj); err != nil {
				return nil, err
			}
			return manager.Update(existing, obj, by), nil
		}
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		m.SetNamespace(namespace)
		m.SetName(name)
		if err := change(false, obj); err != nil {
			return nil, err
		}
		if obj, err = defaulted(t, obj); err != nil {
			return nil, err
		}
		return manager.Create(obj, by), nil
	}
	_, _, err := p.Pipeline.Update(resources.APIServer.Request(ctx, "update", t, t.KeyOf(namespace, name)), &r)
	// Another server that starts at the same time does the same.
	if err != nil && !apierrors.IsAlreadyExists(err) && !errors.Is(err, resources.ErrExists) {
		return fmt.Errorf("%s %s: %w", t.Resource, name, err)
	}
	return nil
}

// defaulted takes a new object to the version that is stored and back, which sets its defaults.
func defaulted(t *resources.Type, hub runtime.Object) (runtime.Object, error) {
	versioned, err := t.ToVersion(hub, t.StorageVersion)
	if err != nil {
		return nil, err
	}
	t.Scheme.Default(versioned)
	return t.ToHub(versioned)
}
