package controllers_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// unsteady is a store whose watches fail once when they are told to.
type unsteady struct {
	resources.Store
	failure atomic.Pointer[error]
	opened  atomic.Int32 // the number of watches
}

func (u *unsteady) Watch(ctx context.Context, opts resources.WatchOptions) (resources.Watch, error) {
	u.opened.Add(1)
	w, err := u.Store.Watch(ctx, opts)
	return unsteadyWatch{w, u}, err
}

type unsteadyWatch struct {
	resources.Watch
	store *unsteady
}

func (w unsteadyWatch) Next(ctx context.Context, max int) ([]*resources.Event, int64, error) {
	if err := w.store.failure.Swap(nil); err != nil {
		return nil, 0, *err
	}
	return w.Watch.Next(ctx, max)
}

// A feed that lost its place restarts, and one whose database does not answer for a while continues; neither misses a change.
func TestFeedFails(t *testing.T) {
	for name, failure := range map[string]error{
		"expired":     &resources.ExpiredError{Requested: 1, Oldest: 2},
		"unavailable": errors.Join(resources.ErrUnavailable),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			store := &unsteady{Store: c.store}
			c.theirs = store
			c.start()
			owner, other := c.thing("owner"), c.thing("other")
			child, stays := c.thing("child", ownedBy(owner)), c.thing("stays", ownedBy(other))
			c.settle()
			opened := store.opened.Load()
			store.failure.Store(&failure)
			c.delete(owner, background)
			c.gone(child)
			if store.failure.Load() != nil {
				t.Error("nothing failed")
			}
			if anew := store.opened.Load() != opened; anew == errors.Is(failure, resources.ErrUnavailable) {
				t.Errorf("begun anew: %v", anew)
			}
			c.stays(stays)
			c.delete(other, background)
			c.gone(stays)
		})
	}
}

// locked is a store that cannot read a type until it is unlocked.
type locked struct {
	resources.Store
	resource string
	key      atomic.Bool
}

func (l *locked) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if resource == l.resource && at.Namespace == "" && !l.key.Load() {
		return nil, &resources.TransformError{Err: errors.New("no key")}
	}
	return l.Store.Snapshot(ctx, resource, at)
}

// An object that cannot be read does not keep a namespace from being deleted. It may be a dependent of any owner, so nothing is
// collected, and no owner with dependents to orphan is released, until it can be read; then all of this happens.
func TestUnreadableObject(t *testing.T) {
	c := newCluster(t)
	store := &locked{Store: c.store, resource: "secrets"}
	c.theirs = store
	owner, left, doomed := c.thing("owner"), c.thing("left"), c.namespace("doomed")
	child := c.thing("child", ownedBy(owner))
	secret := c.create("secrets", &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns",
		OwnerReferences: []metav1.OwnerReference{refTo(left)}}})
	c.start()
	c.delete(owner, background)
	c.delete(left, metav1.DeletePropagationOrphan)
	c.delete(doomed, background)
	c.gone(doomed)
	if c.get(child.Key) == nil || c.get(left.Key) == nil {
		t.Error("garbage was collected without a look at all there is")
	}
	store.key.Store(true)
	c.gone(child, left)
	c.stays(secret)
}

// meddler is a store in which a change happens the first time that a type is listed.
type meddler struct {
	resources.Store
	resource string
	meddle   atomic.Pointer[func()]
}

func (m *meddler) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if resource == m.resource {
		if meddle := m.meddle.Swap(nil); meddle != nil {
			(*meddle)()
		}
	}
	return m.Store.Snapshot(ctx, resource, at)
}
