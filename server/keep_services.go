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

// leaveTimeout bounds how long a server that stops tries to take itself out of the endpoints.
const leaveTimeout = 5 * time.Second

// KeepServices brings back what BootstrapServices made when somebody deletes it, and keeps the endpoints those of the
// servers that live, until ctx ends or the store is closed. This server then is an endpoint no longer, if there are
// others. What users make of the Service stays: several servers do not undo each other's work.
func (s *Server) KeepServices(ctx context.Context, n Network) {
	k := keeper{server: s, network: n}
	if n.Members != nil && n.Address != nil {
		k.membership = n.membership(s.Store)
	}
	for {
		err := k.keep(ctx)
		if ctx.Err() != nil || errors.Is(err, resources.ErrClosed) {
			break
		}
		s.Logger.Warn("the Service kubernetes is not looked after for a moment", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(keepPause):
		}
	}
	if k.membership == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := k.membership.leave(ctx, s); err != nil {
		s.Logger.Warn("this server is still an endpoint of the Service kubernetes; the others will see to that", "error", err)
	}
}

// keeper looks after the objects by which a cluster finds its API.
type keeper struct {
	server     *Server
	network    Network
	membership *membership // nil: there are no other servers to know of
	watches    []resources.Watch
	woken      chan struct{}
}

// keep follows the objects and the servers until an error.
func (k *keeper) keep(ctx context.Context) error {
	defer k.unwatch()
	if err := k.watch(ctx); err != nil {
		return err
	}
	missing := true // what was deleted before the watches began
	for {
		changed, again, err := k.look(ctx, missing)
		if err != nil {
			return err
		}
		for look := false; !look; look = look || missing {
			if look, err = k.wait(ctx, changed, again); err != nil {
				return err
			}
			if missing, err = anyDeleted(ctx, k.watches); err != nil {
				return err
			}
		}
	}
}

func (k *keeper) watch(ctx context.Context) error {
	k.woken = make(chan struct{}, 1)
	wake := func() {
		select {
		case k.woken <- struct{}{}:
		default:
		}
	}
	store := k.server.Store
	for resource, namespace := range keptNamespaces {
		now, err := store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
		if err != nil {
			return err
		}
		w, err := store.Watch(ctx, resources.WatchOptions{Resource: resource, Namespace: namespace, Name: serviceName,
			After: now.Revision(), Wake: wake})
		if err != nil {
			return err
		}
		k.watches = append(k.watches, w)
	}
	return nil
}

func (k *keeper) unwatch() {
	for _, w := range k.watches {
		w.Close()
	}
	k.watches = nil
}

// look puts right what is missing, or all that depends on who lives. It returns what tells that somebody came or went,
// and when to look again without that; 0 for never.
func (k *keeper) look(ctx context.Context, missing bool) (changed <-chan struct{}, again time.Duration, err error) {
	if missing {
		if err := k.server.ensureReachable(ctx, k.network); err != nil {
			return nil, 0, err
		}
	}
	if k.membership != nil {
		changed = k.network.Members.Changed() // before looking, so that nothing is missed in between
		if again, err = k.membership.bury(ctx, time.Now()); err != nil {
			return nil, 0, err
		}
		return changed, again, k.membership.reconcile(ctx, k.server)
	}
	if !missing || k.network.Address == nil {
		return nil, 0, nil
	}
	return nil, 0, k.server.ensureEndpoints(ctx, func(exists bool) ([]endpoint, error) {
		if exists {
			return nil, nil
		}
		return []endpoint{{k.network.Address, k.network.Port}}, nil
	})
}

// wait returns when something happened to the objects, or, with true, when the servers have to be looked at.
func (k *keeper) wait(ctx context.Context, changed <-chan struct{}, again time.Duration) (bool, error) {
	var due <-chan time.Time
	if again > 0 {
		timer := time.NewTimer(again)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-k.woken:
		return false, nil
	case <-changed:
	case <-due:
	}
	return true, nil
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
