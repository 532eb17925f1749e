package controlplane

import (
	"context"
	"slices"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// concerned returns the Services and IPAddresses that may be wrong after events; nil events: all of them.
func (r *addressRepair) concerned(ctx context.Context, events []*resources.Event) (services []resources.Key, addresses []string, err error) {
	if events == nil || slices.ContainsFunc(events, func(e *resources.Event) bool { return e.Object.Resource == rangesResource }) {
		return r.all(ctx)
	}
	freed := map[string]resources.Key{} // addresses of deleted Services
	for _, e := range events {
		gone := e.Op == resources.Delete
		switch {
		case e.Object.Resource == servicesResource && gone:
			for _, ip := range clusterIPs(e.Object) {
				addresses = append(addresses, ip)
				freed[ip] = e.Object.Key
			}
		case e.Object.Resource == servicesResource:
			services = append(services, e.Object.Key)
		default:
			owner := r.owner(e.Object)
			services = append(services, owner)
			if !gone {
				addresses = append(addresses, e.Object.Name)
			}
			if gone && owner.Name != "" && freed[e.Object.Name] == owner {
				continue // it was deleted with its Service
			}
			has, err := r.has(ctx, owner, e.Object.Name)
			if err != nil {
				return nil, nil, err
			}
			// The event does not say which Service lacks the address.
			r.everything = r.everything || !has
		}
	}
	return services, addresses, nil
}

// has tells whether a Service exists and has an address.
func (r *addressRepair) has(ctx context.Context, service resources.Key, ip string) (bool, error) {
	if service.Name == "" {
		return false, nil
	}
	o, err := r.get(ctx, service, resources.Any)
	return o != nil && slices.Contains(clusterIPs(o), ip), err
}

// all returns all Services and IPAddresses.
func (r *addressRepair) all(ctx context.Context) (services []resources.Key, addresses []string, err error) {
	r.waiting, r.everything = map[string]time.Time{}, false
	for _, t := range []*resources.Type{r.services, r.addresses} {
		all, err := r.plane.Store.Snapshot(ctx, t.ResourceName(), resources.At{Match: resources.Any})
		if err != nil {
			return nil, nil, err
		}
		all.Ascend("", "", func(o *resources.Object) bool {
			if t == r.services {
				services = append(services, o.Key)
			} else {
				addresses = append(addresses, o.Name)
			}
			return true
		})
	}
	return services, addresses, nil
}
