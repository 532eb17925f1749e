package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/networking"

	"github.com/rowlock/rowlock/resources"
)

const (
	// rangeManager is the field manager of the default ServiceCIDR's condition, and the source of the Events about it: the name of
	// kube-apiserver's controller.
	rangeManager = "kubernetes-service-cidr-controller"
	rangeIsReady = "Kubernetes default Service CIDR is ready"
	// The reasons of these Events.
	rangeFailed, rangeDiffers = "KubernetesDefaultServiceCIDRError", "KubernetesDefaultServiceCIDRInconsistent"
)

// ensureRange creates the default ServiceCIDR, or adds the range of a second family. An existing range is not changed,
// since Services have addresses from it.
func (p *Plane) ensureRange(ctx context.Context, ranges []net.IPNet, report *reporter) error {
	t, ok := p.Registry.Catalog().Type("servicecidrs.networking.k8s.io")
	if !ok {
		return nil
	}
	r := &rangeKeeper{plane: p, t: t, report: report}
	for i := range ranges {
		r.cidrs = append(r.cidrs, ranges[i].String())
	}
	err := p.ensure(ctx, t, "", serviceName, func(exists bool, obj runtime.Object) error {
		spec := &obj.(*networking.ServiceCIDR).Spec
		if !exists || len(r.cidrs) == 2 && len(spec.CIDRs) == 1 && spec.CIDRs[0] == r.cidrs[0] {
			spec.CIDRs = r.cidrs
		}
		return nil
	})
	live, gerr := p.Store.Get(ctx, t.KeyOf("", serviceName), resources.At{Match: resources.MostRecent})
	switch {
	case isRefused(err) && errors.Is(gerr, resources.ErrNotFound):
		r.report.warn(ctx, r.t, &resources.Object{Key: t.KeyOf("", serviceName)}, rangeFailed, "", "The default ServiceCIDR can not be created")
	case isRefused(err) && gerr == nil:
		r.report.warn(ctx, r.t, live, rangeFailed, "", fmt.Sprintf("The default ServiceCIDR can not be upgraded from %s to dual stack %v : %v", r.cidrs[0], r.cidrs, errors.Unwrap(err)))
	}
	if err = cmp.Or(err, gerr); err != nil {
		return err
	}
	return r.mark(ctx, live)
}

// rangeKeeper marks the default ServiceCIDR as ready, or reports why not.
type rangeKeeper struct {
	plane *Plane
	t     *resources.Type
	// cidrs are the configured ranges.
	cidrs []string
	// report may be nil.
	report *reporter
}

// toMark tells whether to set the condition Ready of the default ServiceCIDR: it is not set yet, and the range is the
// configured one.
func (r *rangeKeeper) toMark(c *networking.ServiceCIDR) bool {
	ready := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	return (ready == nil || ready.Status == metav1.ConditionUnknown) && c.DeletionTimestamp == nil && slices.Equal(c.Spec.CIDRs, r.cidrs)
}

// check reports a default ServiceCIDR that is not the one configured, or not ready.
func (r *rangeKeeper) check(ctx context.Context, o *resources.Object, c *networking.ServiceCIDR) {
	ready := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	switch {
	case c.DeletionTimestamp != nil: // that is the business of kube-controller-manager
	case !slices.Equal(c.Spec.CIDRs, r.cidrs):
		r.report.warn(ctx, r.t, o, rangeDiffers, "", fmt.Sprintf("The default ServiceCIDR %v does not match the controller flag configurations %s", c.Spec.CIDRs, r.cidrs))
	case ready != nil && ready.Status == metav1.ConditionFalse:
		r.report.warn(ctx, r.t, o, ready.Reason, "", "Configuration matches, but "+ready.Message)
	}
}

// mark sets the condition Ready of the default ServiceCIDR if toMark says so.
func (r *rangeKeeper) mark(ctx context.Context, live *resources.Object) error {
	manager, err := r.t.ServerManager("status")
	if err != nil {
		return err
	}
	is, err := r.t.DecodeHubInContext(ctx, live)
	if err != nil {
		return err
	}
	if c := is.(*networking.ServiceCIDR); !r.toMark(c) {
		r.check(ctx, live, c)
		return nil
	}
	u := resources.UpdateRequest{Type: r.t, Name: serviceName}
	u.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		if c := existing.(*networking.ServiceCIDR); !r.toMark(c) {
			return c.DeepCopy(), nil
		}
		patch := conditionPatch(r.t, serviceName, map[string]any{"type": networkingv1.ServiceCIDRConditionReady,
			"status": string(metav1.ConditionTrue), "message": rangeIsReady})
		return manager.Apply(existing, patch, rangeManager, true)
	}
	_, _, err = r.plane.Pipeline.Update(resources.APIServer.Request(ctx, "update", r.t, r.t.KeyOf("", serviceName), "status"), &u)
	if isRefused(err) {
		r.report.warn(ctx, r.t, live, rangeFailed, "", "The default ServiceCIDR Status can not be set to Ready=True")
	}
	return err
}
