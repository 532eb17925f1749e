package controllers_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// searched holds searches of all Pods until they are let go.
type searched struct {
	resources.Store
	holds        atomic.Bool
	began, letGo chan struct{}
	once         sync.Once
}

func (s *searched) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if resource == "pods" && s.holds.Load() {
		s.once.Do(func() { close(s.began) })
		<-s.letGo
	}
	return s.Store.Snapshot(ctx, resource, at)
}

// A search of all objects of a type for an owner in another namespace does not hold up the other work of the controllers.
func TestSearchHoldsNobodyUp(t *testing.T) {
	c := newCluster(t)
	store := &searched{Store: c.store, began: make(chan struct{}), letGo: make(chan struct{})}
	c.theirs = store
	stop := c.start()
	c.settle()
	store.holds.Store(true)
	letGo := sync.OnceFunc(func() { close(store.letGo) })
	defer stop()
	defer letGo()
	ofPod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "absent", UID: "absent"}
	c.gone(c.thing("child", func(m *core.ConfigMap) { m.OwnerReferences = []metav1.OwnerReference{ofPod} }))
	<-store.began
	owner := c.thing("owner")
	child := c.thing("other", ownedBy(owner))
	c.delete(owner, background)
	c.gone(owner, child)
}

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
	if n := store.snapshots.Load() - before; n > 10 {
		t.Errorf("%d snapshots", n)
	}
}
