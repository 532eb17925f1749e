package admission

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

// derived is something made of all objects of some types, which is made again by the first who asks for it after one of them has
// changed. While nothing changes it costs two loads, and no goroutine follows anything.
//
// Invariant: what get returns was made of a state that has every change whose commit by this server had returned before get was
// called, and every change of others that a read of this server had shown.
type derived[T any] struct {
	store     resources.View
	resources []string
	// make makes it of what reads show now.
	make func(ctx context.Context) (T, error)

	// woken counts how often something has changed. It is raised by the store before a change can be seen.
	woken atomic.Int64
	made  atomic.Pointer[madeAt[T]]

	// making is held by who makes it anew, which may wait for the store.
	making chan struct{}
	alarms []resources.Watch // one for each of resources; nil: to be opened
}

// madeAt is what was made when woken had a value.
type madeAt[T any] struct {
	value T
	woken int64
}

func newDerived[T any](store resources.View, make_ func(context.Context) (T, error), resources ...string) *derived[T] {
	return &derived[T]{store: store, resources: resources, make: make_, making: make(chan struct{}, 1)}
}

// get returns it. Errors: those of resources.Watcher and resources.Reader, and of make.
func (d *derived[T]) get(ctx context.Context) (T, error) {
	if m := d.made.Load(); m != nil && m.woken == d.woken.Load() {
		return m.value, nil
	}
	var none T
	select {
	case d.making <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	defer func() { <-d.making }()
	woken := d.woken.Load() // what wakes from here on is looked for by the next who asks
	if m := d.made.Load(); m != nil && m.woken == woken {
		return m.value, nil
	}
	if err := d.catchUp(ctx); err != nil {
		return none, err
	}
	value, err := d.make(ctx)
	if err != nil {
		return none, err
	}
	d.made.Store(&madeAt[T]{value, woken})
	return value, nil
}

// alarmPage is how many events are taken at a time.
const alarmPage = 256

// catchUp returns when reads show everything that has woken, and the alarms are set again.
func (d *derived[T]) catchUp(ctx context.Context) error {
	if d.alarms == nil {
		return d.open(ctx)
	}
	for i, w := range d.alarms {
		through, err := drain(ctx, w)
		var expired *resources.ExpiredError
		if errors.As(err, &expired) {
			d.close()
			return d.open(ctx)
		}
		if err != nil {
			return err
		}
		// The watch knows of a change before reads show it.
		if _, err := d.store.Snapshot(ctx, d.resources[i], resources.At{Match: resources.NotOlderThan, Revision: through}); err != nil {
			return err
		}
	}
	return nil
}

func drain(ctx context.Context, w resources.Watch) (through int64, err error) {
	for {
		events, through, err := w.Next(ctx, alarmPage)
		if err != nil || len(events) < alarmPage {
			return through, err
		}
	}
}

// open sets the alarms for what comes after the present, which reads show then.
func (d *derived[T]) open(ctx context.Context) error {
	for _, resource := range d.resources {
		now, err := d.store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
		if err == nil {
			var w resources.Watch
			w, err = d.store.Watch(ctx, resources.WatchOptions{Resource: resource, After: now.Revision(), Wake: func() { d.woken.Add(1) }})
			if err == nil {
				d.alarms = append(d.alarms, w)
				continue
			}
		}
		d.close()
		return err
	}
	return nil
}

func (d *derived[T]) close() {
	for _, w := range d.alarms {
		w.Close()
	}
	d.alarms = nil
}
