package admission

import (
	"context"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

// derived is something made of all objects of some types, which is made again by the first who asks for it after one of them has
// changed. While nothing changes it costs a look-up for each type, and nothing follows anything.
//
// Invariant: what get returns was made of a state that has every change whose commit by this server had returned before get was
// called, and every change of others that a read of this server had shown. It is Changed of the store that says so: a watch is
// woken a moment after reads show a change.
type derived[T any] struct {
	store     resources.Reader
	resources []string
	// make makes it of what reads show now, at whatever point.
	make func(ctx context.Context) (T, error)
	made atomic.Pointer[madeAt[T]]

	// making is held by who makes it anew, which may wait for the store.
	making chan struct{}
}

// madeAt is what was made when the types had changed so far, or further.
type madeAt[T any] struct {
	value   T
	changed []int64 // of each of resources
}

func newDerived[T any](store resources.Reader, make_ func(context.Context) (T, error), resources ...string) *derived[T] {
	return &derived[T]{store: store, resources: resources, make: make_, making: make(chan struct{}, 1)}
}

// get returns it. Errors: those of make, and the context's.
func (d *derived[T]) get(ctx context.Context) (T, error) {
	if m := d.made.Load(); d.upToDate(m) {
		return m.value, nil
	}
	var none T
	select {
	case d.making <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	defer func() { <-d.making }()
	if m := d.made.Load(); d.upToDate(m) {
		return m.value, nil
	}
	// Before the objects are read: a change from here on is found by the next who asks.
	changed := make([]int64, len(d.resources))
	for i, resource := range d.resources {
		changed[i] = d.store.Changed(resource)
	}
	value, err := d.make(ctx)
	if err != nil {
		return none, err
	}
	d.made.Store(&madeAt[T]{value, changed})
	return value, nil
}

func (d *derived[T]) upToDate(m *madeAt[T]) bool {
	if m == nil {
		return false
	}
	for i, resource := range d.resources {
		if d.store.Changed(resource) != m.changed[i] {
			return false
		}
	}
	return true
}
