package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
)

// Prober probes the servers behind APIServices.
type Prober interface {
	// Probe asks the server of a group version for its discovery, and returns why it does not answer, or, without asked, why it cannot be asked. It
	// may take some seconds.
	Probe(ctx context.Context, gv schema.GroupVersion) (asked bool, err error)
}

// judge decides whether the server of an APIService is available, with upstream's reasons and messages. failed: the server
// was probed and did not answer, so another check follows soon. An error says that it is not known, because the server cannot be probed.
func (a *availability) judge(ctx context.Context, is *apiregistrationv1.APIService) (c apiregistration.APIServiceCondition, failed bool, err error) {
	namespace, name, port := is.Spec.Service.Namespace, is.Spec.Service.Name, *is.Spec.Service.Port
	lister := behind.New(a.Store, a.Registry).With(ctx, resources.At{Match: resources.MostRecent})
	service, err := lister.Service(namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return available(apiregistration.ConditionFalse, "ServiceNotFound", "service/%s in %q is not present", name, namespace), false, nil
	case err != nil:
		return available(apiregistration.ConditionUnknown, "ServiceAccessError", "service/%s in %q cannot be checked due to: %v", name, namespace, err), true, nil
	}
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
		if i < 0 {
			return available(apiregistration.ConditionFalse, "ServicePortError", "service/%s in %q is not listening on port %d", name, namespace, port), false, nil
		}
		all, err := lister.GetEndpointSlices(namespace, name)
		switch portName := service.Spec.Ports[i].Name; {
		case err != nil:
			return available(apiregistration.ConditionUnknown, "EndpointsAccessError", "service/%s in %q cannot be checked due to: %v", name, namespace, err), true, nil
		case len(all) == 0:
			return available(apiregistration.ConditionFalse, "EndpointsNotFound", "cannot find endpointslices for service/%s in %q", name, namespace), false, nil
		case !slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool { return serves(s, portName) }):
			return available(apiregistration.ConditionFalse, "MissingEndpoints",
				"endpointslices for service/%s in %q have no addresses with port name %q", name, namespace, portName), false, nil
		}
	}
	asked, err := a.Prober.Probe(ctx, schema.GroupVersion{Group: is.Spec.Group, Version: is.Spec.Version})
	switch {
	case err != nil && !asked:
		return c, true, err // as in upstream, the status stays
	case err != nil:
		return available(apiregistration.ConditionFalse, "FailedDiscoveryCheck", "%v", err), true, nil
	}
	return available(apiregistration.ConditionTrue, "Passed", "all checks passed"), false, nil
}

// serves tells whether an EndpointSlice has a ready endpoint and the port.
func serves(s *discoveryv1.EndpointSlice, port string) bool {
	return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }) &&
		slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return p.Name != nil && *p.Name == port && p.Port != nil })
}

func available(status apiregistration.ConditionStatus, reason, message string, of ...any) apiregistration.APIServiceCondition {
	return apiregistration.APIServiceCondition{Type: apiregistration.Available, Status: status, LastTransitionTime: metav1.Now(), Reason: reason,
		Message: fmt.Sprintf(message, of...)}
}

// check maintains the status of one APIService.
type check struct {
	wake chan struct{} // triggers a check at once
	stop context.CancelFunc

	mu   sync.Mutex
	spec *apiregistrationv1.APIServiceSpec
	// told is the condition that this server wrote last.
	told apiregistration.APIServiceCondition
	// logged is the error of the last check, which is in the log; empty: it had none. Only the goroutine of the checks uses it.
	logged string
}

// concerns tells whether an APIService needs a check: its spec has changed, or its condition Available is not the one that this
// server wrote.
func (c *check) concerns(is *apiregistrationv1.APIService) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := c.spec != nil && apiequality.Semantic.DeepEqual(*c.spec, is.Spec) && slices.ContainsFunc(is.Status.Conditions, func(is apiregistrationv1.APIServiceCondition) bool {
		return is.Type == apiregistrationv1.Available && string(is.Status) == string(c.told.Status) && is.Reason == c.told.Reason && is.Message == c.told.Message
	})
	c.spec = &is.Spec
	return !same
}

func (c *check) now() {
	select {
	case c.wake <- struct{}{}:
	default: // a check is already due
	}
}

// look checks an APIService once and writes the result. It returns false when another check has to follow soon.
func (a *availability) look(ctx context.Context, name string, c *check) bool {
	t, ok := a.Registry.Catalog().Type(apiServicesResource)
	if !ok {
		return true
	}
	o, err := a.Store.Get(ctx, t.KeyOf("", name), resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return true // the follower will get the event
	}
	var obj runtime.Object
	if err == nil {
		obj, err = t.DecodeStored(o)
	}
	if err != nil {
		a.failed(ctx, name, c, err)
		return false
	}
	is := obj.(*apiregistrationv1.APIService)
	if is.Spec.Service == nil {
		return true // package controlplane maintains the status of this APIService
	}
	judged, failed, err := a.judge(ctx, is)
	if ctx.Err() != nil {
		return true
	}
	if err != nil {
		a.failed(ctx, name, c, err)
		return false
	}
	c.mu.Lock()
	c.told = judged
	c.mu.Unlock()
	if err := a.tell(ctx, t, is, judged); err != nil {
		a.failed(ctx, name, c, err)
		return false
	}
	c.logged = ""
	return !failed
}

// failed logs an error of a check, unless the previous check failed with the same one: checks go on as long as the error does.
func (a *availability) failed(ctx context.Context, name string, c *check, err error) {
	if text := err.Error(); ctx.Err() == nil && text != c.logged {
		c.logged = text
		a.Logger.Warn("the availability of an APIService is not known", "name", name, "error", err)
	}
}

// tell writes a condition into the status of the checked APIService, if it differs from the stored one.
func (a *availability) tell(ctx context.Context, t *resources.Type, judged *apiregistrationv1.APIService, c apiregistration.APIServiceCondition) error {
	manager, err := t.ServerManager("status")
	if err != nil {
		return err
	}
	lost := false
	r := resources.UpdateRequest{Type: t, Name: judged.Name}
	r.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		lost = false
		is := existing.DeepCopyObject().(*apiregistration.APIService)
		before := is.Status.DeepCopy()
		if is.UID != judged.UID || is.Spec.Service == nil || is.Spec.Service.Name != judged.Spec.Service.Name ||
			is.Spec.Service.Namespace != judged.Spec.Service.Namespace || is.Spec.Service.Port != *judged.Spec.Service.Port {
			return is, nil // the APIService has changed and is checked again
		}
		apiregistration.SetAPIServiceCondition(is, c)
		if apiequality.Semantic.DeepEqual(before, &is.Status) {
			return is, nil
		}
		lost = c.Status != apiregistration.ConditionTrue && apiregistration.IsAPIServiceConditionTrue(existing.(*apiregistration.APIService), apiregistration.Available)
		return manager.Update(existing, is, resources.ServerManagerName), nil
	}
	_, _, err = a.Pipeline.Update(resources.APIServer.Request(ctx, "update", t, t.KeyOf("", judged.Name), "status"), &r)
	if err == nil && lost && a.Unavailable != nil {
		a.Unavailable(judged.Name, c.Reason)
	}
	return resources.UnlessGone(ctx, a.Store, t.KeyOf("", judged.Name), judged.UID, 0, err)
}

// pauseAfter returns the pause after a number of failures, as in upstream's queue.
func pauseAfter(failures int) time.Duration {
	if failures > 12 {
		return checkInterval
	}
	return min(5*time.Millisecond<<failures, checkInterval)
}
