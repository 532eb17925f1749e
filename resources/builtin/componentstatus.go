package builtin

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// componentStatuses tell of the store alone, under the name that clients know for it: whether a scheduler or a
// controller manager runs somewhere is not this server's to know (kube-apiserver tries two fixed ports of its host).
func componentStatuses() *resources.Type {
	t := newType[core.ComponentStatus](coreV1, "componentstatuses", false)
	t.NewList = func() runtime.Object { return &core.ComponentStatusList{} }
	t.ShortNames = []string{"cs"}
	t.Attrs = metaAttrs(true) // kube-apiserver selects by namespace too, always an empty one
	t.Table = tables
	t.StorageVersion = schema.GroupVersion{}
	t.Computed = func(ctx context.Context, s resources.Reader) ([]runtime.Object, error) {
		return []runtime.Object{&core.ComponentStatus{
			ObjectMeta: metav1.ObjectMeta{Name: "etcd-0"},
			Conditions: []core.ComponentCondition{storeHealth(ctx, s)},
		}}, nil
	}
	return t
}

func storeHealth(ctx context.Context, s resources.Reader) core.ComponentCondition {
	// No object has an empty name; to say so for certain the store has to ask its database.
	_, err := s.Get(ctx, resources.Key{Resource: "namespaces"}, resources.At{Match: resources.MostRecent})
	if err != nil && !errors.Is(err, resources.ErrNotFound) {
		return core.ComponentCondition{Type: core.ComponentHealthy, Status: core.ConditionFalse, Error: err.Error()}
	}
	return core.ComponentCondition{Type: core.ComponentHealthy, Status: core.ConditionTrue, Message: "ok"}
}
