package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// newQuotas returns the evaluators of the resources that a request would use.
func newQuotas(informers *storeInformers) (quota.Configuration, error) {
	evaluators, err := core.NewEvaluators(nil, informers, nil)
	if err != nil {
		return nil, fmt.Errorf("quota evaluators: %w", err)
	}
	for i, e := range evaluators {
		if e.GroupResource() == resourcev1.Resource("resourceclaims") {
			evaluators[i] = claims{e, informers.followClasses}
		}
	}
	return generic.NewConfiguration(evaluators, install.DefaultIgnoredResources()), nil
}

// claims measures ResourceClaims. The names under which quotas may bound their devices depend on the DeviceClasses,
// which upstream's evaluator gets by events: these are delivered before each use.
type claims struct {
	quota.Evaluator

	catchUp func()
}

// Matches reports whether a quota bounds an object.
func (c claims) Matches(q *corev1.ResourceQuota, item runtime.Object) (bool, error) {
	c.catchUp()
	return c.Evaluator.Matches(q, item)
}

// MatchingResources returns those names that the evaluator measures.
func (c claims) MatchingResources(names []corev1.ResourceName) []corev1.ResourceName {
	c.catchUp()
	return c.Evaluator.MatchingResources(names)
}

// Usage is the use of resources by an object.
func (c claims) Usage(item runtime.Object) (corev1.ResourceList, error) {
	c.catchUp()
	return c.Evaluator.Usage(item)
}

// deviceClasses is the type whose events the evaluator of ResourceClaims gets.
const deviceClasses = "deviceclasses.resource.k8s.io"

func (f *storeInformers) followClasses() {
	if err := f.catchUp(deviceClasses); err != nil {
		utilruntime.HandleError(err) // the next request tries again
	}
}

// quotaPlugin is the name of the plugin that counts the objects of quotas.
const quotaPlugin = "ResourceQuota"

// countOnce is that plugin for objects that it has not counted in an earlier round of the same request.
type countOnce struct{ admission.ValidationInterface }

// Validate implements admission.ValidationInterface.
func (c countOnce) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if resources.IsValidatedAgain(ctx) {
		return nil
	}
	return c.ValidationInterface.Validate(ctx, a, o)
}

// countingOnce makes the plugin for quotas a countOnce.
func countingOnce(p admission.Interface, name string) admission.Interface {
	if v, ok := p.(admission.ValidationInterface); ok && name == quotaPlugin {
		return countOnce{v}
	}
	return p
}

// quotaInitializer gives ResourceQuota the evaluators.
type quotaInitializer struct{ quotas quota.Configuration }

func (i quotaInitializer) Initialize(p admission.Interface) {
	if wants, ok := p.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(i.quotas)
		upstream.CalmQueue(wants, "admission_quota_controller", "evaluator", "queue")
	}
}
