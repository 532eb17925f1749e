package controlplane

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// refusing is an admission plugin that refuses every write while it is told to, and counts the writes.
type refusing struct {
	allow atomic.Bool
	count atomic.Int64
}

func (r *refusing) Handles(admission.Operation) bool { return true }

func (r *refusing) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	r.count.Add(1)
	if r.allow.Load() {
		return nil
	}
	return apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.org": service "none" not found`))
}

// refusingNames is an admission plugin that refuses every write of some objects, by name.
type refusingNames []string

func (r refusingNames) Handles(admission.Operation) bool { return true }

func (r refusingNames) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if slices.Contains(r, a.GetName()) {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), errors.New("a policy refuses it"))
	}
	return nil
}

// A start does not write objects that are right, so no webhook can refuse them.
func TestRestartWritesNothing(t *testing.T) {
	x := newRepairs(t)
	plugin := &refusing{}
	x.p.Pipeline.Use(plugin, nil)
	x.start(6443)
	if n := plugin.count.Load(); n != 0 {
		t.Errorf("a second start has written %d times", n)
	}
	k := &keeper{plane: x.p, network: x.network(6443)}
	k.begin()
	if _, err := k.do(t.Context(), nil); err != nil || plugin.count.Load() != 0 || k.wrong {
		t.Errorf("looking has written %d times: %v", plugin.count.Load(), err)
	}
}

// A refused write keeps no server from starting: otherwise nobody could remove the webhook that refuses it. The object
// is created when the webhook is gone.
func TestStartRefused(t *testing.T) {
	x := newRepairs(t)
	const (
		role    = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user"
		service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps"
		config  = "/api/v1/namespaces/kube-system/configmaps/" + trackingName
		level   = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/workload-low"
		ends    = "/api/v1/namespaces/default/endpoints/kubernetes"
		slice   = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
	)
	gone := []string{role, service, config, level}
	for _, path := range gone {
		x.send("DELETE", path, "", 200)
	}
	plugin := &refusing{}
	x.p.Pipeline.Use(plugin, nil)
	x.start(7443)
	if plugin.count.Load() == 0 {
		t.Error("nothing was tried to be written")
	}
	for _, path := range gone {
		x.send("GET", path, "", 404)
	}
	k := &keeper{plane: x.p, network: x.network(7443)}
	k.begin()
	if again, err := k.do(t.Context(), nil); err != nil || again != refusedAgain {
		t.Errorf("the endpoints are looked at again in %v: %v", again, err)
	}
	again := x.p.keepRefused()
	if again == nil {
		t.Fatal("what was refused is not tried again")
	}
	if _, err := again.do(t.Context(), nil); !isRefused(err) {
		t.Errorf("trying again ended with %v", err)
	}

	plugin.allow.Store(true)
	if _, err := again.do(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for _, path := range gone {
		x.send("GET", path, "", 200)
	}
	if _, err := k.do(t.Context(), nil); err != nil || k.wrong {
		t.Error("the endpoints are still wrong:", err)
	}
	if got := x.send("GET", ends, "", 200).Get("subsets.0.ports.0.port").Int(); got != 7443 {
		t.Errorf("the Endpoints have the port %d", got)
	}
	if got := x.send("GET", slice, "", 200).Get("ports.0.port").Int(); got != 7443 {
		t.Errorf("the EndpointSlice has the port %d", got)
	}
	if x.p.keepRefused() != nil {
		t.Error("what was made is to be tried again")
	}
}

// A start returns its first error, not the cancellation of the other work.
func TestStartError(t *testing.T) {
	broken := errors.New("broken")
	var refused refusals
	err := atOnce(t.Context(), &refused,
		func(ctx context.Context, all group) error {
			all.Go(func() error { return broken })
			<-ctx.Done()
			return nil
		},
		func(ctx context.Context, _ group) error { return ctx.Err() })
	if !errors.Is(err, broken) || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
