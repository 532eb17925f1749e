package controlplane

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// keepPause is how long keepServices waits before it begins anew after an error of the store.
const keepPause = time.Second

// keptObjects are those that keepServices looks after. Of EndpointSlices there may be several.
var keptObjects = []resources.WatchOptions{
	{Resource: rangesResource, Name: serviceName}, {Resource: servicesResource, Namespace: metav1.NamespaceDefault, Name: serviceName},
	{Resource: "endpoints", Namespace: metav1.NamespaceDefault, Name: serviceName}, {Resource: slicesResource, Namespace: metav1.NamespaceDefault},
}

const slicesResource = "endpointslices.discovery.k8s.io"

// leaveTimeout bounds how long a server that stops tries to take itself out of the endpoints.
const leaveTimeout = 5 * time.Second

// keepServices brings back what BootstrapServices made when somebody deletes it, and keeps the endpoints those of the
// servers that live, whatever somebody makes of them, until ctx ends or the store is closed. This server then is an
// endpoint no longer, if there are others. What users make of the Service stays.
func (p *Plane) keepServices(ctx context.Context, n Network) {
	k := keeper{plane: p, network: n}
	if n.Members != nil && n.Address != nil {
		k.membership = n.membership()
	}
	for {
		err := k.keep(ctx)
		if ctx.Err() != nil || errors.Is(err, resources.ErrClosed) {
			break
		}
		p.Logger.Warn("the Service kubernetes is not looked after for a moment", "error", err)
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
	if err := k.membership.leave(ctx, p); err != nil {
		p.Logger.Warn("this server is still an endpoint of the Service kubernetes; the others will see to that", "error", err)
	}
}

// keeper looks after the objects by which a cluster finds its API.
type keeper struct {
	plane      *Plane
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
	wrong := true // what was deleted before the watches began
	for {
		changed, again, err := k.look(ctx, wrong)
		if err != nil {
			return err
		}
		for look := false; !look; {
			events, err := await(ctx, k.watches, k.woken, changed, again)
			if err != nil {
				return err
			}
			wrong = slices.ContainsFunc(events, mayBeWrong)
			look = wrong || events == nil
		}
	}
}

func (k *keeper) watch(ctx context.Context) (err error) {
	k.woken = make(chan struct{}, 1)
	k.watches, err = openWatches(ctx, k.plane.Store, keptObjects, k.woken)
	return err
}

func (k *keeper) unwatch() {
	for _, w := range k.watches {
		w.Close()
	}
	k.watches = nil
}

// look puts right what may be wrong, or all that depends on who lives. It returns what tells that somebody came or went,
// and when to look again without that; 0 for never.
func (k *keeper) look(ctx context.Context, wrong bool) (changed <-chan struct{}, again time.Duration, err error) {
	if wrong {
		if err := k.plane.ensureReachable(ctx, k.network); err != nil {
			return nil, 0, err
		}
	}
	if k.membership != nil {
		changed = k.network.Members.Changed() // before looking, so that nothing is missed in between
		if again, err = k.membership.bury(ctx, time.Now()); err != nil {
			return nil, 0, err
		}
		return changed, again, k.membership.reconcile(ctx, k.plane)
	}
	if !wrong || k.network.Address == nil {
		return nil, 0, nil
	}
	return nil, 0, k.plane.ensureEndpoints(ctx, func(bool) ([]endpoint, error) {
		return []endpoint{{k.network.Address, k.network.Port}}, nil
	})
}

// mayBeWrong: a deletion, or any change but of the Service, which users may make what they like, as in kube-apiserver. An
// EndpointSlice beside the first is only concerned when it is, or was, the server's own: users may call one of theirs so.
func mayBeWrong(e *resources.Event) bool {
	if _, further := sliceNumber(e.Object.Name); further {
		return e.Op != resources.Create && (ownSlice(e.Object.Labels) || e.Prev != nil && ownSlice(e.Prev.Labels))
	}
	return e.Object.Name == serviceName && (isDeletion(e) || e.Object.Resource != servicesResource)
}

func isDeletion(e *resources.Event) bool { return e.Op == resources.Delete }
