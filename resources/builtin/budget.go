package builtin

import (
	"context"
	"errors"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/dryrun"
	pdbhelper "k8s.io/component-helpers/apps/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"

	"github.com/rowlock/rowlock/resources"
)

// maxDisruptedPods is the number of evictions that a budget may have pending before its controller has noticed them, as
// in kube-apiserver.
const maxDisruptedPods = 2000

// findBudgets returns the budgets that cover a pod, of which there should be at most one.
func (e *eviction) findBudgets(ctx context.Context, p *core.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	snapshot, err := e.op.Snapshot(ctx, e.budgets.ResourceName(), resources.At{Match: resources.MostRecent, Namespace: p.Namespace})
	if err != nil {
		return nil, err
	}
	var found []*policyv1.PodDisruptionBudget
	snapshot.Ascend(p.Namespace, "", func(o *resources.Object) bool {
		var v runtime.Object
		if v, err = e.budgets.DecodeStored(o); err != nil {
			return false
		}
		b := v.(*policyv1.PodDisruptionBudget)
		// An invalid selector covers nothing.
		if s, serr := metav1.LabelSelectorAsSelector(b.Spec.Selector); serr == nil && s.Matches(labels.Set(p.Labels)) {
			found = append(found, b)
		}
		return true
	})
	return found, err
}

// decrement takes one disruption from a budget, or returns the error why there is none. A dry run ends after the check, as in kube-apiserver.
func (e *eviction) decrement(ctx context.Context, found *policyv1.PodDisruptionBudget) error {
	if dryrun.IsDryRun(e.options.DryRun) {
		return refusal(found)
	}
	manager, err := e.manager()
	if err != nil {
		return err
	}
	key := e.budgets.KeyOf(found.Namespace, found.Name)
	u := resources.UpdateRequest{Type: e.budgets, Name: key.Name}
	u.Change = func(_ context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
		if live == nil {
			return nil, apierrors.NewNotFound(e.budgets.GroupResource, key.Name)
		}
		now, err := e.decremented(live)
		if err != nil {
			return nil, err
		}
		return manager.Update(existing, now, resources.ServerManagerName), nil
	}
	return e.op.UpdateSubresource(ctx, key, "status", &u)
}

// decremented returns the budget without one disruption.
func (e *eviction) decremented(live *resources.Object) (runtime.Object, error) {
	v, err := e.budgets.DecodeStored(live)
	if err != nil {
		return nil, err
	}
	b := v.(*policyv1.PodDisruptionBudget)
	if err := refusal(b); err != nil {
		return nil, err
	}
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptionsAllowed == 0 {
		pdbhelper.UpdateDisruptionAllowedCondition(b)
	}
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	// The budget's controller then stops counting the pod as present before it sees the deletion.
	b.Status.DisruptedPods[e.name] = metav1.Time{Time: time.Now()}
	return e.budgets.ToHub(b)
}

// refusal is the error of an eviction that the budget does not allow; nil when it does.
func refusal(b *policyv1.PodDisruptionBudget) error {
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return tooSoon(b.Name)
	case b.Status.DisruptionsAllowed < 0:
		return withCause(apierrors.NewForbidden(policy.Resource("poddisruptionbudget"), b.Name, errors.New("pdb disruptions allowed is negative")),
			fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: pdb disruptions allowed is negative", b.Name))
	case len(b.Status.DisruptedPods) > maxDisruptedPods:
		return withCause(apierrors.NewForbidden(policy.Resource("poddisruptionbudget"), b.Name,
			errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller")),
			fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller", b.Name))
	case b.Status.DisruptionsAllowed == 0:
		return withCause(apierrors.NewTooManyRequests(violation, 0), whyNone(b))
	}
	return nil
}

const violation = "Cannot evict pod as it would violate the pod's disruption budget."

// tooSoon is the error when the budget's controller is behind.
func tooSoon(budget string) error {
	return withCause(apierrors.NewTooManyRequests(violation, 10),
		fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

// whyNone is the reason why a budget allows no disruption. A failure of its controller comes first: the numbers mean
// nothing then.
func whyNone(b *policyv1.PodDisruptionBudget) string {
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	explained := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case explained && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", b.Name, c.Message)
	case b.Status.CurrentHealthy <= b.Status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy)
	case explained:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason, c.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
}

func withCause(err *apierrors.StatusError, message string) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	return err
}
