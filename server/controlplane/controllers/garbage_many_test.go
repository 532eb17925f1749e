package controllers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// counted counts the snapshots of ConfigMaps.
type counted struct {
	resources.Store
	snapshots atomic.Int64
}

func (c *counted) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if resource == "configmaps" {
		c.snapshots.Add(1)
	}
	return c.Store.Snapshot(ctx, resource, at)
}

// All namespaces are searched for few of the owners that an object has in none.
func TestManyAbsentOwners(t *testing.T) {
	c := newCluster(t)
	store := &counted{Store: c.store}
	c.theirs = store
	c.start()
	c.settle()
	before := store.snapshots.Load()
	c.gone(c.thing("child", func(m *core.ConfigMap) {
		for i := range 5000 {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "absent", UID: types.UID(fmt.Sprint(i))})
		}
	}))
	if n := store.snapshots.Load() - before; n > 1000 {
		t.Errorf("%d snapshots", n)
	}
}
