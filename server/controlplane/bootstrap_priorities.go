package controlplane

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"github.com/rowlock/rowlock/resources"
)

// bootstrapClasses creates the system PriorityClasses, by which pods are ranked. It leaves an existing one alone, since
// no user can change or delete it.
func (p *Plane) bootstrapClasses(ctx context.Context, all group) error {
	t, ok := p.Registry.Catalog().Type("priorityclasses.scheduling.k8s.io")
	if !ok {
		return nil
	}
	for _, want := range schedulingv1.SystemPriorityClasses() {
		if p.stored(ctx, t, want.Name) != nil {
			continue
		}
		all.Go(func() error {
			return p.ensure(ctx, t, "", want.Name, func(exists bool, obj runtime.Object) error {
				if class := obj.(*scheduling.PriorityClass); !exists {
					class.Value, class.Description = want.Value, want.Description
				}
				return nil
			})
		})
	}
	return nil
}

// stored returns an object in its storage version, or nil when it cannot be read: the write that follows then reports
// why.
func (p *Plane) stored(ctx context.Context, t *resources.Type, name string) runtime.Object {
	o, err := p.Store.Get(ctx, t.KeyOf("", name), resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil
	}
	obj, err := t.DecodeStored(o)
	if err != nil {
		return nil
	}
	return obj
}
