package server

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// keepPause is how long KeepServices waits before it begins anew after an error of the store.
const keepPause = time.Second

// keptNamespaces are those of the objects that KeepServices looks after, by type. All are called serviceName.
var keptNamespaces = map[string]string{
	"servicecidrs.networking.k8s.io": "", "services": metav1.NamespaceDefault, "endpoints": metav1.NamespaceDefault,
	"endpointslices.discovery.k8s.io": metav1.NamespaceDefault,
}

// KeepServices brings back what BootstrapServices made when somebody deletes it, until ctx ends or the store is closed.
// What others make of it stays: several servers do not undo each other's work.
func (s *Server) KeepServices(ctx context.Context, n Network) {
	n.keep = true
	for {
		err := s.keepServices(ctx, n)
		if ctx.Err() != nil || errors.Is(err, resources.ErrClosed) {
			return
		}
		s.Logger.Warn("the Service kubernetes is not looked after for a moment", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(keepPause):
		}
	}
}

// keepServices follows the objects until an error.
func (s *Server) keepServices(ctx context.Context, n Network) error {
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	var watches []resources.Watch
	for resource, namespace := range keptNamespaces {
		now, err := s.Store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
		if err != nil {
			return err
		}
		w, err := s.Store.Watch(ctx, resources.WatchOptions{Resource: resource, Namespace: namespace, Name: serviceName,
			After: now.Revision(), Wake: wake})
		if err != nil {
			return err
		}
		defer w.Close()
		watches = append(watches, w)
	}
	missing := true // what was deleted before the watches began
	for {
		if missing {
			if err := s.BootstrapServices(ctx, n); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-woken:
		}
		var err error
		if missing, err = anyDeleted(ctx, watches); err != nil {
			return err
		}
	}
}

// anyDeleted takes all events from the watches and tells whether one is a deletion.
func anyDeleted(ctx context.Context, watches []resources.Watch) (bool, error) {
	deleted := false
	for _, w := range watches {
		for {
			events, _, err := w.Next(ctx, 100)
			if err != nil {
				return false, err
			}
			if len(events) == 0 {
				break
			}
			for _, e := range events {
				deleted = deleted || e.Op == resources.Delete
			}
		}
	}
	return deleted, nil
}
