package controlplane

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// systemNamespaces exist from the start, and are created again when one is removed.
var systemNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// Bootstrap creates the objects that clients rely on; it runs before Serve. Several servers may run it at once.
//
// The objects are written concurrently, so that the store batches them into few transactions. An object that is right is
// not written, so that a later start costs nothing. Keep retries the objects that a user's webhook or policy refuses.
//
// Errors: resources.ErrNotRecorded when the audit has let no write begin for a minute; those of the store; the context's.
func (p *Plane) Bootstrap(ctx context.Context) error {
	var refused refusals
	if err := untilRecorded(ctx, p.Logger, func() error {
		refused.errs = nil
		return p.bootstrapObjects(ctx, &refused)
	}); err != nil {
		return err
	}
	for _, err := range refused.errs {
		p.Logger.Error("an object that the server needs was refused", "error", err)
	}
	p.refused.Store(len(refused.errs) > 0)
	if _, _, err := p.useFlows(ctx); err != nil {
		return err
	}
	p.Front.Finish(bootstrapHooks(!p.NoRBAC)...)
	if p.ClientAuthorities != nil {
		p.Front.Finish(authorityHook)
	}
	return nil
}

// bootstrapObjects creates the objects that exist from the start.
func (p *Plane) bootstrapObjects(ctx context.Context, refused *refusals) error {
	// Admission refuses objects in a namespace that does not exist.
	if err := atOnce(ctx, refused, p.bootstrapNamespaces); err != nil {
		return err
	}
	objects := []func(context.Context, group) error{p.bootstrapAPIServices, p.bootstrapConfigMaps, p.bootstrapFlows, p.bootstrapClasses}
	if !p.NoRBAC {
		objects = append(objects, p.bootstrapRoles)
	}
	return atOnce(ctx, refused, objects...)
}

// keepRefused retries the objects that were refused when the server started, until they are accepted.
func (p *Plane) keepRefused() *chore {
	if !p.refused.Load() {
		return nil
	}
	return &chore{name: "the objects that exist from the start", do: func(ctx context.Context, _ []*resources.Event) (time.Duration, error) {
		var refused refusals
		if err := p.bootstrapObjects(ctx, &refused); err != nil {
			return 0, err
		}
		p.refused.Store(len(refused.errs) > 0)
		return 0, refused.err()
	}}
}

// bootstrapHooks are kube-apiserver's names for the parts of Bootstrap.
func bootstrapHooks(rbac bool) []string {
	hooks := []string{"start-system-namespaces-controller"}
	if rbac {
		hooks = append(hooks, "rbac/bootstrap-roles")
	}
	hooks = append(hooks, "start-legacy-token-tracking-controller", "scheduling/bootstrap-system-priority-classes",
		"priority-and-fairness-config-producer",
		"apiservice-status-local-available-controller", "apiservice-status-remote-available-controller", "apiservice-registration-controller",
		"kube-apiserver-autoregistration")
	if interoperates() {
		hooks = append(hooks, "peer-endpoint-reconciler-controller")
	}
	if identified() {
		hooks = append(hooks, identityHooks...)
	}
	return hooks
}

const authorityHook = "start-cluster-authentication-info-controller"

// serviceHooks are kube-apiserver's names for the parts of BootstrapServices.
var serviceHooks = []string{"start-kubernetes-service-cidr-controller", "bootstrap-controller", "start-service-ip-repair-controllers"}

// Hooks are the parts of the start that Bootstrap and BootstrapServices finish in a whole server. With rbac, the RBAC
// bootstrap policy is one of them.
func Hooks(rbac bool) []string {
	return slices.Concat(bootstrapHooks(rbac), []string{authorityHook}, serviceHooks)
}

// chores are those that a server does while it runs, whatever types it serves; an entry is nil where there is nothing
// to do. See upkeeps for the others.
func (p *Plane) chores() []*chore {
	return []*chore{p.keepRefused(), p.keepNamespaces(), p.keepTracking(), p.keepTrust(), p.keepDefinitions()}
}

func (p *Plane) bootstrapNamespaces(ctx context.Context, all group) error {
	t, ok := p.Registry.Catalog().Type("namespaces")
	if !ok {
		return nil
	}
	for _, name := range systemNamespaces {
		all.Go(func() error {
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

// keepNamespaces recreates a system namespace that was deleted.
func (p *Plane) keepNamespaces() *chore {
	c := &chore{name: "the system's namespaces"}
	for _, name := range systemNamespaces {
		c.follow = append(c.follow, resources.Key{Resource: "namespaces", Name: name})
	}
	c.do = func(ctx context.Context, events []*resources.Event) (time.Duration, error) {
		if events != nil && !slices.ContainsFunc(events, isDeletion) {
			return 0, nil
		}
		var refused refusals
		if err := atOnce(ctx, &refused, p.bootstrapNamespaces); err != nil {
			return 0, err
		}
		return 0, refused.err()
	}
	return c
}
