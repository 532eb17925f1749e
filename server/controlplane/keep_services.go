package controlplane

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// keptObjects are those that keepServices follows. Of EndpointSlices there may be several.
var keptObjects = []resources.Key{
	{Resource: rangesResource, Name: serviceName}, {Resource: servicesResource, Namespace: metav1.NamespaceDefault, Name: serviceName},
	{Resource: "endpoints", Namespace: metav1.NamespaceDefault, Name: serviceName}, {Resource: slicesResource, Namespace: metav1.NamespaceDefault},
}

const slicesResource = "endpointslices.discovery.k8s.io"

// refusedAgain is when what a webhook or a policy has refused is tried again, as often as by kube-apiserver.
const refusedAgain = 10 * time.Second

// leaveTimeout bounds how long a server that stops tries to take itself out of the endpoints.
const leaveTimeout = 5 * time.Second

// keepServices brings back what BootstrapServices made when it is deleted, and keeps the endpoints those of the
// servers that live, however they are changed. At the end this server is an endpoint no longer, if there are others.
// What users make of the Service stays.
func (p *Plane) keepServices(n Network) *chore {
	k := &keeper{plane: p, network: n}
	c := &chore{name: "the Service kubernetes", follow: keptObjects, begin: k.begin, do: k.do, longest: time.Second}
	if n.Members != nil && n.Address != nil {
		k.membership = n.membership()
		c.changed, c.end = n.Members.Changed, k.leave
	}
	return c
}

// keeper looks after the objects by which a cluster finds its API.
type keeper struct {
	plane      *Plane
	network    Network
	membership *membership // nil: there are no other servers to know of
	// wrong: the objects may be other than they have to be, or gone.
	wrong bool
	// again is when to look at the servers without an event; 0 for never.
	again time.Duration
}

// begin: what happened before the objects are followed is not known.
func (k *keeper) begin() { k.wrong = true }

// do puts right what may be wrong, and all that depends on who lives, unless nothing has happened that concerns either.
func (k *keeper) do(ctx context.Context, events []*resources.Event) (again time.Duration, err error) {
	k.wrong = k.wrong || slices.ContainsFunc(events, mayBeWrong)
	if events != nil && !k.wrong {
		return k.again, nil
	}
	k.again, err = k.look(ctx)
	k.wrong = err != nil
	if isRefused(err) {
		k.plane.Logger.Warn("the Service kubernetes and its endpoints could not be repaired: the write was refused", "error", err)
		k.again, err = refusedAgain, nil
	}
	return k.again, err
}

func (k *keeper) look(ctx context.Context) (again time.Duration, err error) {
	var refused refusals
	if k.wrong {
		if err := refused.pass(k.plane.ensureReachable(ctx, k.network)); err != nil {
			return 0, err
		}
	}
	switch {
	case k.membership != nil:
		if again, err = k.membership.removeDead(ctx, time.Now()); err == nil {
			err = k.membership.reconcile(ctx, k.plane)
		}
	case k.wrong && k.network.Address != nil:
		err = k.plane.ensureEndpoints(ctx, k.network.alone)
	}
	if err := refused.pass(err); err != nil {
		return 0, err
	}
	return again, refused.err()
}

// leave takes this server out of the endpoints.
func (k *keeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := k.membership.leave(ctx, k.plane); err != nil {
		k.plane.Logger.Warn("this server is still an endpoint of the Service kubernetes; the others will see to that", "error", err)
	}
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
