package controlplane

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// keptObjects are the objects that keepServices follows. There may be several EndpointSlices.
var keptObjects = []resources.Key{
	{Resource: rangesResource, Name: serviceName}, {Resource: servicesResource, Namespace: metav1.NamespaceDefault, Name: serviceName},
	{Resource: "endpoints", Namespace: metav1.NamespaceDefault, Name: serviceName}, {Resource: slicesResource, Namespace: metav1.NamespaceDefault},
}

const slicesResource = "endpointslices.discovery.k8s.io"

// refusedAgain is the interval of retrying a write that a webhook or a policy refused, as in kube-apiserver.
const refusedAgain = 10 * time.Second

// leaveTimeout bounds the attempt of a stopping server to remove itself from the endpoints.
const leaveTimeout = 5 * time.Second

// keepServices recreates the objects of BootstrapServices when they are deleted, and restores the endpoints of the
// living servers whatever changes them. When it ends, it removes this server from the endpoints, if there are others.
// Changes that users make to the Service stay.
func (p *Plane) keepServices(n Network) *chore {
	k := &keeper{plane: p, network: n, report: p.reporters[rangeManager]}
	c := &chore{name: "the Service kubernetes", follow: keptObjects, begin: k.begin, do: k.report.after(k.do), longest: time.Second}
	if n.Members != nil && n.isEndpoint() {
		k.membership = n.membership()
		c.changed, c.end = n.Members.Changed, k.leave
	}
	return c
}

// keeper maintains the objects by which clients within a cluster find its API.
type keeper struct {
	plane      *Plane
	network    Network
	membership *membership // nil: no other servers are known
	report     *reporter
	// wrong: the objects may be missing or need a repair.
	wrong bool
	// due is when to check the servers without an event; zero for never. Events that concern nothing here do not put it off.
	due time.Time
}

// begin assumes that the objects are wrong: the changes before following began are not known.
func (k *keeper) begin() { k.wrong = true }

// do repairs the objects that may be wrong and updates the endpoints to the living servers. It does nothing when the events concern neither.
func (k *keeper) do(ctx context.Context, events []*resources.Event) (again time.Duration, err error) {
	k.wrong = k.wrong || slices.ContainsFunc(events, mayBeWrong)
	if events != nil && !k.wrong {
		if k.due.IsZero() {
			return 0, nil
		}
		return max(time.Until(k.due), time.Nanosecond), nil
	}
	again, err = k.look(ctx)
	k.wrong = err != nil
	if isRefused(err) {
		k.plane.Logger.Warn("the Service kubernetes and its endpoints could not be repaired: the write was refused", "error", err)
		again, err = refusedAgain, nil
	}
	if k.due = (time.Time{}); again > 0 {
		k.due = time.Now().Add(again)
	}
	return again, err
}

func (k *keeper) look(ctx context.Context) (again time.Duration, err error) {
	var refused refusals
	if k.wrong {
		if err := refused.pass(k.plane.ensureReachable(ctx, k.network, k.report)); err != nil {
			return 0, err
		}
	}
	switch {
	case k.membership != nil:
		if again, err = k.membership.removeDead(ctx, time.Now()); err == nil {
			err = k.membership.reconcile(ctx, k.plane)
		}
	case k.wrong && k.network.isEndpoint():
		err = k.plane.ensureEndpoints(ctx, k.network.alone)
	}
	if err := refused.pass(err); err != nil {
		return 0, err
	}
	return again, refused.err()
}

// leave removes this server from the endpoints.
func (k *keeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := k.membership.leave(ctx, k.plane); err != nil {
		k.plane.Logger.Warn("this server is still an endpoint of the Service kubernetes; the others will see to that", "error", err)
	}
}

// mayBeWrong tells whether an event may need a repair: any deletion, and any change to an object other than the Service,
// which users may change freely, as in kube-apiserver. A further EndpointSlice counts only when it is, or was, the
// server's own: users may give theirs such a name.
func mayBeWrong(e *resources.Event) bool {
	if _, further := sliceNumber(e.Object.Name); further {
		return e.Op != resources.Create && (ownSlice(e.Object.Labels) || e.Prev != nil && ownSlice(e.Prev.Labels))
	}
	return e.Object.Name == serviceName && (isDeletion(e) || e.Object.Resource != servicesResource)
}

func isDeletion(e *resources.Event) bool { return e.Op == resources.Delete }
