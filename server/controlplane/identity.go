package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/crypto/cryptobyte"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	// identityLabel marks the Leases by which the servers of an API are known (KEP-1965), with identityOf as its value.
	identityLabel = "apiserver.kubernetes.io/identity"
	identityOf    = "kube-apiserver"
	// identitySeconds is for how long such a Lease counts after it was renewed.
	identitySeconds = 3600
	// identityRenewed is how often it is renewed. kube-apiserver does so every ten seconds, which tells nobody more of a Lease that counts
	// for an hour, and wears out SD cards.
	identityRenewed = 30 * time.Minute
	// identityRepaired is how often it is written at most, whoever changes it: a webhook or a policy may do so with each write.
	identityRepaired = time.Second
)

// identityHooks are the names that kube-apiserver has for what keepIdentity does.
var identityHooks = []string{"start-kube-apiserver-identity-lease-controller", "start-kube-apiserver-identity-lease-garbage-collector"}

// identified: servers have a Lease each.
func identified() bool { return utilfeature.DefaultFeatureGate.Enabled(features.APIServerIdentity) }

// identity is the Lease of a server.
type identity struct {
	plane        *Plane
	t            *resources.Type
	host         string
	address      string // by which other servers would reach this one; empty: none is known
	name, holder string
	begun        bool
	written, due time.Time // when it was renewed, and is to be
}

// keepIdentity keeps the Lease of this server while it runs, and removes those of servers that have not been there for an hour.
func (p *Plane) keepIdentity(n Network) *chore {
	t, ok := p.Registry.Catalog().Type(leasesResource)
	host, err := os.Hostname()
	if !ok || err != nil || !identified() {
		return nil
	}
	i := &identity{plane: p, t: t, host: host, name: identityName(host)}
	i.holder = i.name + "_" + string(uuid.NewUUID())
	if n.Address != nil && utilfeature.DefaultFeatureGate.Enabled(features.UnknownVersionInteroperabilityProxy) {
		i.address = net.JoinHostPort(n.Address.String(), strconv.Itoa(n.Port))
	}
	return &chore{name: "the Lease of this server", follow: []resources.Key{t.KeyOf(metav1.NamespaceSystem, i.name)}, do: i.do, end: i.end}
}

// identityName is the name of a server on a host, as kube-apiserver makes it.
func identityName(host string) string {
	b := cryptobyte.NewBuilder(nil)
	for _, part := range []string{host, identityOf} {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(part)) })
	}
	hash := sha256.Sum256(b.BytesOrPanic())
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:16]))
}

// do renews the Lease when it is time, or when somebody has deleted it or changed what it is found by: of two servers on one host, which have one
// Lease, the other may have ended.
func (i *identity) do(ctx context.Context, events []*resources.Event) (again time.Duration, err error) {
	if soon := i.written.Add(identityRepaired); soon.Before(i.due) && slices.ContainsFunc(events, i.mayBeWrong) {
		i.due = soon
	}
	if left := time.Until(i.due); events != nil && left > 0 {
		return left, nil
	}
	var refused refusals
	if !i.begun { // that of the process before this one goes, as by kube-apiserver
		if err := refused.pass(i.remove(ctx, i.name, &metav1.DeleteOptions{})); err != nil {
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

// mayBeWrong does not look at the holder, of whom there are two where two servers have one Lease.
func (i *identity) mayBeWrong(e *resources.Event) bool {
	o := e.Object
	return isDeletion(e) || o.Labels[identityLabel] != identityOf || o.Labels[corev1.LabelHostname] != i.host ||
		gjson.GetBytes(o.Data, "spec.leaseDurationSeconds").Int() != identitySeconds
}

func (i *identity) renew(_ bool, obj runtime.Object) error {
	l := obj.(*coordination.Lease)
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[identityLabel], l.Labels[corev1.LabelHostname] = identityOf, i.host
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
		if o.Namespace == metav1.NamespaceSystem && o.Labels[identityLabel] == identityOf && o.Name != i.name && leaseExpired(o, time.Now()) {
			expired = append(expired, o)
		}
		return o.Namespace == metav1.NamespaceSystem
	})
	for _, o := range expired {
		if err := refused.pass(i.remove(ctx, o.Name, metav1.NewRVDeletionPrecondition(resources.FormatRevision(o.Revision)))); err != nil {
			return err
		}
	}
	return nil
}

// leaseExpired: a Lease counts no more, or does not say until when it does.
func leaseExpired(o *resources.Object, now time.Time) bool {
	renewed, seconds := gjson.GetBytes(o.Data, "spec.renewTime"), gjson.GetBytes(o.Data, "spec.leaseDurationSeconds")
	return !renewed.Exists() || !seconds.Exists() || renewed.Time().Add(time.Duration(seconds.Int())*time.Second).Before(now)
}

// remove removes a Lease. One that is gone, or not as it was, is not there to be removed.
func (i *identity) remove(ctx context.Context, name string, o *metav1.DeleteOptions) error {
	_, err := i.plane.Pipeline.Delete(resources.APIServer.Request(ctx, "delete", i.t, i.t.KeyOf(metav1.NamespaceSystem, name)),
		&resources.DeleteRequest{Type: i.t, Name: name, Options: o})
	if errors.Is(err, resources.ErrNotFound) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// end removes the Lease of this server.
func (i *identity) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := i.remove(ctx, i.name, &metav1.DeleteOptions{}); err != nil {
		i.plane.Logger.Warn("the Lease of this server is left; it is removed an hour after it was last renewed", "error", err)
	}
}
