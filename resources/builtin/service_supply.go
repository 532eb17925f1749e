package builtin

import (
	"context"
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
	"github.com/rowlock/rowlock/resources/upstream"
)

// serviceSupply allocates the addresses and ports of Services. It has no state: the store has the allocations, and the
// allocations and releases of a Service become writes that are committed with it. If another writer allocates the same
// address or port at the same time, one of the two commits fails and is computed again.
type serviceSupply struct {
	network          ServiceNetwork
	addresses, cidrs *resources.Type
	// own writes the managedFields of new addresses.
	own func() (*fieldmanager.Manager, error)

	// allocators are those (*serviceAllocator) that compute nothing at present. An allocation may wait for webhooks, and no
	// other waits for it.
	allocators sync.Pool
}

// serviceAllocator is upstream's rules of Services with their allocators. The rules get their allocators once, so a
// serviceAllocator computes one allocation at a time: current.
type serviceAllocator struct {
	*serviceSupply
	rules   *upstream.Services
	current *allocation
}

func newServiceSupply(n ServiceNetwork, addresses, cidrs *resources.Type) *serviceSupply {
	s := &serviceSupply{network: n, addresses: addresses, cidrs: cidrs}
	s.own = sync.OnceValues(func() (*fieldmanager.Manager, error) { return addresses.ServerManager("") })
	return s
}

// allocator returns a serviceAllocator that computes nothing at present.
func (s *serviceSupply) allocator() (al *serviceAllocator, err error) {
	if al, ok := s.allocators.Get().(*serviceAllocator); ok {
		return al, nil
	}
	al = &serviceAllocator{serviceSupply: s}
	families := map[core.IPFamily]ipallocator.Interface{}
	for _, f := range s.network.families() {
		families[f] = &addressAllocator{family: f, supply: al}
	}
	al.rules, err = upstream.ServiceRules(s.network.families()[0], families, &portAllocator{supply: al})
	return al, err
}

// allocate fills in service, the new state of old, and returns the accompanying writes. old is nil on a create, service
// is nil on a deletion.
func (s *serviceSupply) allocate(ctx context.Context, r resources.Reader, service, old *core.Service) ([]resources.Write, error) {
	al, err := s.allocator()
	if err != nil {
		return nil, err
	}
	a, err := s.newAllocation(ctx, r, service, old)
	if err != nil {
		return nil, err
	}
	al.current = a
	defer func() {
		al.current = nil
		s.allocators.Put(al)
	}()
	// No options: a dry run allocates like any other request, and drops the writes. (kube-apiserver does not check then
	// whether an address is free; the concepts page promises an answer as close as possible to the real one.)
	switch {
	case service == nil:
		al.rules.AfterDelete(old, &metav1.DeleteOptions{})
	case old == nil:
		if _, err := al.rules.BeginCreate(ctx, service, &metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	default:
		finish, err := al.rules.BeginUpdate(ctx, service, old, &metav1.UpdateOptions{})
		if err != nil {
			return nil, err
		}
		finish(ctx, true) // frees what is no longer needed
	}
	return a.writes()
}

// allocation has the allocations and releases of one write of one Service.
type allocation struct {
	supply  *serviceSupply
	ctx     context.Context // a field because upstream's allocators get no context
	service *core.Service

	addresses, cidrs, ports resources.Snapshot
	taken                   []resources.Write
	freed                   []resources.Write
	failed                  error
	drawn                   *portRange
}

func (s *serviceSupply) newAllocation(ctx context.Context, r resources.Reader, service, old *core.Service) (*allocation, error) {
	a := &allocation{supply: s, ctx: ctx, service: service}
	if service == nil {
		a.service = old
	}
	var err error
	if a.addresses, err = r.Snapshot(ctx, s.addresses.ResourceName(), resources.At{Match: resources.MostRecent}); err != nil {
		return nil, err
	}
	// As recent as the first, without asking the database again.
	at := resources.At{Match: resources.NotOlderThan, Revision: a.addresses.Revision()}
	if a.cidrs, err = r.Snapshot(ctx, s.cidrs.ResourceName(), at); err != nil {
		return nil, err
	}
	a.ports, err = r.Snapshot(ctx, NodePortRows, at)
	return a, err
}

// writes are the writes of the allocation, or the error where upstream's rules ignore one.
func (a *allocation) writes() ([]resources.Write, error) {
	return append(a.taken, a.freed...), a.failed
}

// has reports whether the address or port of a key is allocated, this allocation included.
func (a *allocation) has(snapshot resources.Snapshot, key resources.Key) bool {
	for _, w := range a.taken {
		if w.Key == key {
			return true
		}
	}
	return snapshot.Get("", key.Name) != nil
}

// free releases an address or port that the Service has, or has just allocated. A missing one, or another Service's,
// stays unchanged.
func (a *allocation) free(snapshot resources.Snapshot, key resources.Key, remove func(*resources.Object) (*resources.Write, error)) {
	for i, w := range a.taken {
		if w.Key == key {
			a.taken = append(a.taken[:i], a.taken[i+1:]...)
			return
		}
	}
	for _, w := range a.freed {
		if w.Key == key {
			return
		}
	}
	o := snapshot.Get("", key.Name)
	if o == nil {
		return
	}
	w, err := remove(o)
	if w != nil {
		a.freed = append(a.freed, *w)
	}
	a.failed = errors.Join(a.failed, err)
}
