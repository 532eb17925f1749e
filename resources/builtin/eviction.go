package builtin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// evictionRounds is the number of attempts of an eviction whose pod others keep changing.
const evictionRounds = 20

// evict answers a create of pods/eviction: a deletion of the pod that the PodDisruptionBudget covering it has to allow ("API-initiated
// Eviction" of the Kubernetes documentation). A refusal is 429 with cause DisruptionBudget.
func evict(pods, budgets *resources.Type) resources.CreateFunc {
	manager := sync.OnceValues(func() (*fieldmanager.Manager, error) { return budgets.ServerManager("status") })
	return func(ctx context.Context, o *resources.Operation, name string, obj runtime.Object, opts *metav1.CreateOptions) (runtime.Object, error) {
		e, ok := obj.(*policy.Eviction)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", obj))
		}
		options := &metav1.DeleteOptions{DryRun: opts.DryRun}
		if e.DeleteOptions != nil {
			options = e.DeleteOptions.DeepCopy()
		}
		ev := eviction{op: o, pods: pods, budgets: budgets, manager: manager, name: name, options: options}
		if err := ev.run(ctx); err != nil {
			return nil, err
		}
		return &metav1.Status{Status: metav1.StatusSuccess}, nil
	}
}

// checkEviction refuses an invalid Eviction, and copies the dry run of the request to the options of the deletion, before validating
// admission sees them.
func checkEviction(ctx context.Context, _ *resources.Operation, name string, obj runtime.Object, opts *metav1.CreateOptions) (context.Context, error) {
	e, ok := obj.(*policy.Eviction)
	if !ok {
		return ctx, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", obj))
	}
	if name != e.Name {
		return ctx, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	o := e.DeleteOptions
	if o == nil {
		return ctx, nil
	}
	if ptr.Deref(o.IgnoreStoreReadErrorWithClusterBreakingPotential, false) {
		return ctx, apierrors.NewInvalid(schema.GroupKind{Group: policy.GroupName, Kind: "Eviction"}, e.Name, field.ErrorList{
			field.Invalid(field.NewPath("deleteOptions").Child("ignoreStoreReadErrorWithClusterBreakingPotential"), true,
				"can not be set for pod eviction, try after removing the option")})
	}
	switch {
	case len(o.DryRun) == 0:
		o.DryRun = opts.DryRun
	case len(opts.DryRun) > 0 && !slices.Equal(opts.DryRun, o.DryRun):
		return ctx, fmt.Errorf("Non-matching dry-run options in request and content: %v and %v", opts.DryRun, o.DryRun)
	}
	return ctx, nil
}

// eviction is one eviction of one pod.
type eviction struct {
	op            *resources.Operation
	pods, budgets *resources.Type
	// manager is the field manager of the statuses of budgets.
	manager func() (*fieldmanager.Manager, error)
	name    string
	options *metav1.DeleteOptions
}

func (e *eviction) run(ctx context.Context) error {
	p, done, err := e.withoutBudget(ctx)
	if err != nil || done {
		return err
	}
	budget, atRevision, err := e.takeFromBudget(ctx, p)
	if err != nil {
		return err
	}
	if !atRevision {
		return e.remove(ctx, e.options)
	}
	err = e.remove(ctx, e.optionsAt(p.ResourceVersion))
	if apierrors.IsConflict(err) && !e.revisionIsGiven() {
		return tooSoon(budget) // the pod may have become healthy: the client has to try again
	}
	return err
}

// withoutBudget evicts a pod whose removal disrupts nothing: one that has ended, has not started or is being deleted. done is false when
// the pod is none of these; p is its state at that time.
func (e *eviction) withoutBudget(ctx context.Context) (p *core.Pod, done bool, err error) {
	key, err := e.pods.RequestKey(ctx, e.name)
	if err != nil {
		return nil, false, err
	}
	for range evictionRounds {
		if p, err = find[*core.Pod](ctx, e.op, e.pods, key); err != nil {
			return nil, false, err
		}
		over := p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed || p.DeletionTimestamp != nil
		if !over && p.Status.Phase != core.PodPending {
			return p, false, nil
		}
		options := e.options
		if !over && !e.revisionIsGiven() {
			options = e.optionsAt(p.ResourceVersion) // the pod must not have become healthy meanwhile
		}
		if err = e.remove(ctx, options); !apierrors.IsConflict(err) || e.revisionIsGiven() {
			break
		}
	}
	return p, err == nil, err
}

// takeFromBudget takes a disruption from the budget that covers the pod, if one does. atRevision is set when the pod may be removed only in
// its present state, because it is unhealthy and so costs the budget nothing.
func (e *eviction) takeFromBudget(ctx context.Context, p *core.Pod) (budget string, atRevision bool, err error) {
	found, err := e.findBudgets(ctx, p)
	if err != nil || len(found) == 0 {
		return "", false, err
	}
	if len(found) > 1 {
		return "", false, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
	}
	b := found[0]
	if !podutil.IsPodReady(p) {
		always := ptr.Deref(b.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget) == policyv1.AlwaysAllow
		if always || b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0 {
			return b.Name, true, nil
		}
	}
	return b.Name, false, e.decrement(ctx, b)
}

// remove writes the reason into the pod's status, and deletes the pod.
func (e *eviction) remove(ctx context.Context, options *metav1.DeleteOptions) error {
	options = options.DeepCopy()
	if len(options.DryRun) == 0 {
		stored, err := e.addCondition(ctx, options.Preconditions)
		if err != nil {
			return err
		}
		if options.Preconditions != nil && options.Preconditions.ResourceVersion != nil {
			options.Preconditions.ResourceVersion = ptr.To(resources.FormatRevision(stored.Revision))
		}
	}
	_, err := e.op.Delete(ctx, &resources.DeleteRequest{Type: e.pods, Name: e.name, Options: options})
	return err
}

func (e *eviction) addCondition(ctx context.Context, pre *metav1.Preconditions) (*resources.Object, error) {
	u := resources.UpdateRequest{Type: e.pods, Name: e.name, Strategy: pod.StatusStrategy}
	u.Change = func(_ context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
		if live == nil {
			return nil, apierrors.NewNotFound(e.pods.GroupResource, e.name)
		}
		p := existing.DeepCopyObject().(*core.Pod)
		if err := checkEvictedPod(p, pre); err != nil {
			return nil, err
		}
		podutil.UpdatePodCondition(&p.Status, &core.PodCondition{
			Type: core.DisruptionTarget, Status: core.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		})
		return p, nil
	}
	stored, _, err := e.op.Update(ctx, &u)
	return stored, err
}

// checkEvictedPod checks the preconditions of a deletion before the pod is changed.
func checkEvictedPod(p *core.Pod, pre *metav1.Preconditions) error {
	if pre == nil {
		return nil
	}
	// kube-apiserver's error has the kind in place of the resource.
	gr := schema.GroupResource{Resource: "Pod"}
	if uid := ptr.Deref(pre.UID, types.UID("")); uid != "" && uid != p.UID {
		return apierrors.NewConflict(gr, p.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", uid, p.UID))
	}
	if rv := ptr.Deref(pre.ResourceVersion, ""); rv != "" && rv != p.ResourceVersion {
		return apierrors.NewConflict(gr, p.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the "+
			"ResourceVersion in record (%s). The object might have been modified", rv, p.ResourceVersion))
	}
	return nil
}

func (e *eviction) revisionIsGiven() bool {
	return e.options.Preconditions != nil && e.options.Preconditions.ResourceVersion != nil
}

// optionsAt are the options with the pod's resourceVersion as a precondition.
func (e *eviction) optionsAt(resourceVersion string) *metav1.DeleteOptions {
	o := e.options.DeepCopy()
	if o.Preconditions == nil {
		o.Preconditions = &metav1.Preconditions{}
	}
	o.Preconditions.ResourceVersion = &resourceVersion
	return o
}
