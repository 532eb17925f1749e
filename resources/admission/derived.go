package admission

import (
	"context"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

// derived is a value computed from all objects of some types. The first caller after a change of one of them computes it again.
// While nothing changes it costs a look-up for each type, and needs no watch.
//
// Invariant: the result of get is computed from a state that has every change whose commit by this server had returned before
// get was called, and every change of other servers that a read of this server had shown. It uses the store's Changed: a watch
// is notified a moment after reads show a change.
type derived[T any] struct {
	store     resources.Reader
	resources []string
	// make computes the value from objects that it reads during the call, at any point (resources.At).
	make func(ctx context.Context) (T, error)
	made atomic.Pointer[madeAt[T]]

	// making is held while the value is computed, which may wait for the store.
	making chan struct{}
}

// madeAt is a value, and the numbers of Changed from before its computation.
type madeAt[T any] struct {
	value   T
	changed []int64 // for each of resources
}

func newDerived[T any](store resources.Reader, make_ func(context.Context) (T, error), resources ...string) *derived[T] {
	return &derived[T]{store: store, resources: resources, make: make_, making: make(chan struct{}, 1)}
}

// get returns the value. Errors: those of make, and the context's.
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
	// The numbers are read before the objects: the next call finds a later change.
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
