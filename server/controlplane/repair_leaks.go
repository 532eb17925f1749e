package controlplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/resources"
)

// How long an IPAddress may exist before its Service does, or before its Service has the address. The values are
// kube-apiserver's, and its clients rely on them.
const (
	leakGrace      = time.Minute
	referenceGrace = 5 * time.Second
)

// repairAddress removes an IPAddress that was created for a Service which does not have the address.
func (r *addressRepair) repairAddress(ctx context.Context, name string) error {
	o, err := r.get(ctx, r.addresses.KeyOf("", name), resources.Any)
	if o == nil || err != nil || !managed(o) || o.Terminating() {
		return err
	}
	owner := r.owner(o)
	if (owner == resources.Key{}) {
		is := gjson.GetBytes(o.Data, "spec.parentRef")
		ref := &networkingv1.ParentReference{Group: is.Get("group").Str, Resource: is.Get("resource").Str,
			Namespace: is.Get("namespace").Str, Name: is.Get("name").Str}
		return r.leaked(ctx, o, "IPAddressNotAllocated",
			fmt.Sprintf("IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", name, ref))
	}
	service, err := r.get(ctx, owner, resources.Any)
	if err != nil || service != nil && slices.Contains(clusterIPs(service), name) {
		return err
	}
	if service, err = r.get(ctx, owner, resources.MostRecent); err != nil {
		return err
	}
	created := creation(o)
	switch {
	case service == nil:
		if r.wait(name, created.Add(leakGrace)) {
			return nil
		}
		return r.leaked(ctx, o, "IPAddressNotAllocated", fmt.Sprintf("IPAddress: %s for Service %s/%s appears to have leaked: cleaning up",
			name, owner.Namespace, owner.Name))
	case slices.Contains(clusterIPs(service), name),
		gjson.GetBytes(service.Data, "spec.type").Str == string(corev1.ServiceTypeExternalName) && r.wait(name, created.Add(leakGrace)),
		created.After(creation(service)) && r.wait(name, created.Add(referenceGrace)):
		return nil
	}
	return r.leaked(ctx, o, "IPAddressWrongReference", fmt.Sprintf("IPAddress: %s for Service %s/%s has a wrong reference; cleaning up",
		name, owner.Namespace, owner.Name))
}

func creation(o *resources.Object) time.Time {
	return gjson.GetBytes(o.Data, "metadata.creationTimestamp").Time()
}

// wait schedules another check of an IPAddress; false when the time has passed.
func (r *addressRepair) wait(name string, until time.Time) bool {
	if !r.now().Before(until) {
		return false
	}
	r.waiting[name] = until
	return true
}

// leaked removes an IPAddress and reports the reason. Another Service may have the address, which then needs an IPAddress of its own.
func (r *addressRepair) leaked(ctx context.Context, o *resources.Object, reason, message string) error {
	d, err := r.remove(ctx, o)
	if err == nil && d.Object != nil && !d.Unchanged {
		r.report.warn(ctx, r.addresses, o, reason, "IPAddressAllocation", message)
	}
	r.everything = r.everything || d.Gone
	return err
}
