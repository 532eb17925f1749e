package controlplane

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/coordination"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

const (
	leasesResource = "leases.coordination.k8s.io"

	// identityLabel marks the Leases that identify the servers of an API (KEP-1965); its value is resources.ServerKind.
	identityLabel = "apiserver.kubernetes.io/identity"
	// identitySeconds is the duration of such a Lease.
	identitySeconds = 3600
	// identityRenewed is how often the Lease is renewed. kube-apiserver renews it every ten seconds: for a Lease that is valid for an hour
	// this tells nobody more, and it wears out SD cards.
	identityRenewed = 30 * time.Minute
	// identityRepaired is the minimal interval between two writes when others change the Lease: a webhook or a policy
	// may change it at each write.
	identityRepaired = time.Second
)

// identityHooks are kube-apiserver's names for the parts of keepIdentity.
var identityHooks = []string{"start-kube-apiserver-identity-lease-controller", "start-kube-apiserver-identity-lease-garbage-collector"}

// identified tells whether each server has a Lease.
func identified() bool { return utilfeature.DefaultFeatureGate.Enabled(features.APIServerIdentity) }

// interoperates tells whether each server says how others reach it.
func interoperates() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.UnknownVersionInteroperabilityProxy)
}

// identity is the Lease of a server.
type identity struct {
	plane        *Plane
	t            *resources.Type
	host         string
	address      string // at which other servers would reach this one; empty: none is known
	name, holder string
	begun        bool
	written, due time.Time // when the Lease was renewed last, and is due next
}

// keepIdentity renews the Lease of this server while it runs, and removes the Leases of servers that have been gone for an hour.
func (p *Plane) keepIdentity(n Network) *chore {
	t, ok := p.Registry.Catalog().Type(leasesResource)
	host, err := os.Hostname()
	if !ok || err != nil || !identified() {
		return nil
	}
	i := &identity{plane: p, t: t, host: host, name: resources.ServerID()}
	i.holder = i.name + "_" + string(uuid.NewUUID())
	if interoperates() {
		i.address = n.peerAddress()
	}
	return &chore{name: "the Lease of this server", follow: []resources.Key{t.KeyOf(metav1.NamespaceSystem, i.name)}, do: i.do, end: i.end}
}

// peerAddress returns the address at which other servers would reach this one; empty: none is known.
func (n Network) peerAddress() string {
	if n.PeerAddress == "" && n.Address != nil {
		return net.JoinHostPort(n.Address.String(), strconv.Itoa(n.Port))
	}
	return n.PeerAddress
}

// do renews the Lease when it is due, or when it was deleted or the fields that identify it were changed: two servers on one host share a Lease,
// and the other server may have ended.
func (i *identity) do(ctx context.Context, events []*resources.Event) (again time.Duration, err error) {
	if soon := i.written.Add(identityRepaired); soon.Before(i.due) && slices.ContainsFunc(events, i.mayBeWrong) {
		i.due = soon
	}
	if left := time.Until(i.due); events != nil && left > 0 {
		return left, nil
	}
	var refused refusals
	if !i.begun { // the Lease of the previous process is removed, as in kube-apiserver
		if err := refused.pass(i.remove(ctx, i.name, 0)); err != nil {
			return 0, err
		}
	}
	if err := refused.pass(i.plane.ensure(ctx, i.t, metav1.NamespaceSystem, i.name, i.renew)); err != nil {
		return 0, err
	}
	i.begun = true
	if err := i.removeExpired(ctx, &refused); err != nil {
		return 0, err
	}
	again = identityRenewed
	if err := refused.err(); err != nil {
		i.plane.Logger.Warn("the Leases of servers could not be repaired", "error", err)
		again = refusedAgain
	}
	i.written = time.Now()
	i.due = i.written.Add(again)
	return again, nil
}

// mayBeWrong tells whether a Lease needs a repair. It ignores the holder: two servers on one host share a Lease and have different holders.
func (i *identity) mayBeWrong(e *resources.Event) bool {
	o := e.Object
	return isDeletion(e) || o.Labels[identityLabel] != resources.ServerKind || o.Labels[corev1.LabelHostname] != i.host ||
		gjson.GetBytes(o.Data, "spec.leaseDurationSeconds").Int() != identitySeconds
}

func (i *identity) renew(_ bool, obj runtime.Object) error {
	l := obj.(*coordination.Lease)
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[identityLabel], l.Labels[corev1.LabelHostname] = resources.ServerKind, i.host
	if i.address != "" {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, corev1.AnnotationPeerAdvertiseAddress, i.address)
	}
	l.Spec.HolderIdentity = &i.holder
	l.Spec.LeaseDurationSeconds = ptr.To(int32(identitySeconds))
	l.Spec.RenewTime = ptr.To(metav1.NowMicro())
	return nil
}

// removeExpired removes the Leases of servers that are gone.
func (i *identity) removeExpired(ctx context.Context, refused *refusals) error {
	leases, err := i.plane.Store.Snapshot(ctx, leasesResource, resources.At{Match: resources.Any})
	if err != nil {
		return err
	}
	var expired []*resources.Object
	leases.Ascend(metav1.NamespaceSystem, "", func(o *resources.Object) bool {
		if o.Namespace == metav1.NamespaceSystem && o.Labels[identityLabel] == resources.ServerKind && o.Name != i.name && leaseExpired(o, time.Now()) {
			expired = append(expired, o)
		}
		return o.Namespace == metav1.NamespaceSystem
	})
	for _, o := range expired {
		if err := refused.pass(i.remove(ctx, o.Name, o.Revision)); err != nil {
			return err
		}
	}
	return nil
}

// leaseExpired tells whether a Lease has expired, or has no expiry.
func leaseExpired(o *resources.Object, now time.Time) bool {
	renewed, seconds := gjson.GetBytes(o.Data, "spec.renewTime"), gjson.GetBytes(o.Data, "spec.leaseDurationSeconds")
	return !renewed.Exists() || !seconds.Exists() || renewed.Time().Add(time.Duration(seconds.Int())*time.Second).Before(now)
}

// remove removes a Lease, at a revision if it is not 0. It is no error when the Lease is gone or was changed.
func (i *identity) remove(ctx context.Context, name string, revision int64) error {
	o := &metav1.DeleteOptions{}
	if revision != 0 {
		o = metav1.NewRVDeletionPrecondition(resources.FormatRevision(revision))
	}
	key := i.t.KeyOf(metav1.NamespaceSystem, name)
	_, err := i.plane.Pipeline.Delete(resources.APIServer.Request(ctx, "delete", i.t, key), &resources.DeleteRequest{Type: i.t, Name: name, Options: o})
	return resources.UnlessGone(ctx, i.plane.Store, key, "", revision, err)
}

// end removes the Lease of this server.
func (i *identity) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := i.remove(ctx, i.name, 0); err != nil {
		i.plane.Logger.Warn("the Lease of this server is left; it is removed an hour after it was last renewed", "error", err)
	}
}
