package controllers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/rowlock/rowlock/resources"
)

// Election elects, among the servers that share a database, the one that runs the controllers: by a Lease that
// client-go's leader election renews, or by a lock, whose holder a Lease then records. Its method Elect is for
// Config.Elect.
type Election struct {
	Registry *resources.Registry
	Store    resources.Reader
	Pipeline *resources.Pipeline
	Logger   *slog.Logger
	// Identity is the name of this server, unique among the servers.
	Identity string
	// Term is how long a silent server counts as the leader. Default 15 seconds. Renewal is tried at an eighth of it, and
	// given up after two thirds.
	Term time.Duration
	// Lock, when set, decides instead of the Lease: it calls lead while this server has the lock, with a context that ends
	// when it no longer has, and returns when its own context ends. Renewing a Lease would keep an idle database busy.
	Lock func(ctx context.Context, lead func(context.Context)) error
}

// leaseName is the name of the Lease, in the namespace kube-system.
const leaseName = "rowlock-controllers"

// Elect calls lead whenever this server gets the Lease, until ctx ends. When it returns, lead has returned too, and the
// Lease is released.
func (e Election) Elect(ctx context.Context, lead func(context.Context)) error {
	if e.Term == 0 {
		e.Term = 15 * time.Second
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(e.Logger.Handler()))
	if e.Lock != nil {
		return e.Lock(ctx, func(ctx context.Context) {
			e.record(ctx, e.Identity, e.Term)
			defer func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Term/3)
				defer cancel()
				e.record(ctx, "", time.Second)
			}()
			lead(ctx)
		})
	}
	for ctx.Err() == nil {
		if err := e.once(ctx, lead); err != nil {
			return err
		}
	}
	return nil
}

// once waits for the Lease, and leads until it is lost.
func (e Election) once(ctx context.Context, lead func(context.Context)) error {
	term := term{lead: lead}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          e.lease(),
		LeaseDuration: e.Term, RenewDeadline: e.Term * 2 / 3, RetryPeriod: e.Term / 8,
		// Work that is still under way when the Lease is released does no harm: every change is conditional.
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: term.begin, OnStoppedLeading: term.end},
		Name:            leaseName,
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}

func (e Election) lease() *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName},
		Client: leases{Election: e}, LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity}}
}

// record writes into the Lease which server leads; none, when identity is empty. The lock has decided that already, so a
// failed write does not stop this server from leading.
func (e Election) record(ctx context.Context, identity string, duration time.Duration) {
	lease := e.lease()
	now := metav1.NewTime(time.Now())
	next := resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: int(duration / time.Second),
		AcquireTime: now, RenewTime: now}
	before, _, err := lease.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		err = lease.Create(ctx, next)
	case err == nil && identity == "" && before.HolderIdentity != e.Identity:
		return // another server leads
	case err == nil:
		next.LeaderTransitions = before.LeaderTransitions
		if identity != "" && before.HolderIdentity != identity {
			next.LeaderTransitions++
		}
		err = lease.Update(ctx, next)
	}
	if err != nil && ctx.Err() == nil {
		e.Logger.Warn("the Lease of the controllers could not be updated", "lease", leaseName, "holder", identity, "error", err)
	}
}

// term is one period of leading. The elector begins it in a goroutine that it does not wait for.
type term struct {
	lead    func(context.Context)
	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

func (t *term) begin(ctx context.Context) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.running.Add(1)
	t.mu.Unlock()
	defer t.running.Done()
	t.lead(ctx)
}

// end waits until the period is over; the context of begin has ended.
func (t *term) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.running.Wait()
}

// leases implements the part of a client that the election uses, on the store.
type leases struct {
	client.LeaseInterface
	Election
}

// Leases returns l: the election uses one namespace.
func (l leases) Leases(string) client.LeaseInterface { return l }

func (l leases) resource() (*resources.Type, error) {
	t, ok := l.Registry.Catalog().Type("leases.coordination.k8s.io")
	if !ok {
		return nil, errors.New("there are no leases")
	}
	return t, nil
}

// Get implements client.LeaseInterface.
func (l leases) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	t, err := l.resource()
	if err != nil {
		return nil, err
	}
	o, err := l.Store.Get(ctx, t.KeyOf(metav1.NamespaceSystem, name), resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return nil, apierrors.NewNotFound(t.GroupResource, name)
	}
	return decodeLease(t, o, err)
}

// Create implements client.LeaseInterface.
func (l leases) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	t, err := l.resource()
	if err != nil {
		return nil, err
	}
	obj, err := t.ToHub(lease.DeepCopy())
	if err != nil {
		return nil, err
	}
	r := resources.CreateRequest{Type: t, Object: obj}
	o, err := l.Pipeline.Create(resources.APIServer.Request(ctx, "create", t, t.KeyOf(lease.Namespace, lease.Name)), &r)
	return decodeLease(t, o, err)
}

// Update implements client.LeaseInterface. It fails when the Lease is no longer at the revision that Get returned.
func (l leases) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	t, err := l.resource()
	if err != nil {
		return nil, err
	}
	r := resources.UpdateRequest{Type: t, Name: lease.Name,
		Change: func(context.Context, runtime.Object, *resources.Object) (runtime.Object, error) {
			return t.ToHub(lease.DeepCopy())
		}}
	o, _, err := l.Pipeline.Update(resources.APIServer.Request(ctx, "update", t, t.KeyOf(lease.Namespace, lease.Name)), &r)
	return decodeLease(t, o, err)
}

func decodeLease(t *resources.Type, o *resources.Object, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	obj, err := t.DecodeStored(o)
	if err != nil {
		return nil, err
	}
	return obj.(*coordinationv1.Lease), nil
}
