package builtin

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/dryrun"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rowlock/rowlock/resources"
)

// bindings is the virtual type of a Binding that names its pod itself.
func bindings(pods *resources.Type) *resources.Type {
	return virtual[core.Binding](coreV1, "bindings", true, bindNamed(pods))
}

// bindNamed answers a create of bindings, where the Binding itself names the pod.
func bindNamed(pods *resources.Type) resources.CreateFunc {
	bind := bind(pods)
	return func(ctx context.Context, o *resources.Operation, _ string, obj runtime.Object, opts *metav1.CreateOptions) (runtime.Object, error) {
		b, ok := obj.(*core.Binding)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
		}
		ctx, err := checkBinding(ctx, o, b.Name, b, opts)
		if err != nil {
			return nil, err
		}
		if err := o.Validate(ctx, b); err != nil {
			return nil, err
		}
		return bind(ctx, o, b.Name, b, opts)
	}
}

// checkBinding refuses an invalid Binding before validating admission sees it.
func checkBinding(ctx context.Context, _ *resources.Operation, name string, obj runtime.Object, _ *metav1.CreateOptions) (context.Context, error) {
	b, ok := obj.(*core.Binding)
	if !ok {
		return ctx, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
	}
	if name != b.Name {
		return ctx, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	// Not an Invalid status: kube-apiserver answers these errors with 500.
	if errs := validation.ValidatePodBinding(b); len(errs) != 0 {
		return ctx, errs.ToAggregate()
	}
	return ctx, nil
}

// bind answers a create of pods/binding: it assigns the pod to a node, as a scheduler has decided. The uid and the
// resourceVersion of the Binding, where set, are preconditions on the pod.
//
// Not inlined, because both calls would take a copy of its functions in the binary.
//
//go:noinline
func bind(pods *resources.Type) resources.CreateFunc {
	return func(ctx context.Context, o *resources.Operation, name string, obj runtime.Object, opts *metav1.CreateOptions) (runtime.Object, error) {
		b, ok := obj.(*core.Binding)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
		}
		key, err := pods.RequestKey(ctx, name)
		if err != nil {
			return nil, err
		}
		_, err = o.Rewrite(ctx, key, func(current *resources.Object) ([]resources.Write, error) {
			if current == nil {
				return nil, apierrors.NewNotFound(pods.GroupResource, name)
			}
			hub, err := pods.DecodeHub(current)
			if err != nil {
				return nil, err
			}
			pod := hub.(*core.Pod)
			if err := checkPreconditions(keyNamed(key, opts.DryRun), pod, string(b.UID), b.ResourceVersion); err != nil {
				return nil, apierrors.NewConflict(pods.GroupResource, name, err)
			}
			if err := assign(pod, b); err != nil {
				return nil, apierrors.NewConflict(core.Resource("pods/binding"), name, err)
			}
			draft, err := pods.NewDraft(ctx, pod)
			if err != nil || dryrun.IsDryRun(opts.DryRun) {
				return nil, err
			}
			return []resources.Write{{Op: resources.Update, Key: key, From: current.Revision, Draft: draft}}, nil
		})
		if err != nil {
			return nil, err
		}
		return &metav1.Status{Status: metav1.StatusSuccess}, nil
	}
}

// assign writes a Binding into its pod.
func assign(pod *core.Pod, b *core.Binding) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) != 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	pod.Spec.NodeName = b.Target.Name
	if utilfeature.DefaultFeatureGate.Enabled(features.ClearingNominatedNodeNameAfterBinding) {
		pod.Status.NominatedNodeName = ""
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, b.Annotations)
	podutil.DropInitContainerAnnotations(pod.Annotations)
	if utilfeature.DefaultFeatureGate.Enabled(features.PodTopologyLabelsAdmission) && len(b.Labels) > 0 {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		maps.Copy(pod.Labels, b.Labels)
	}
	podutil.UpdatePodCondition(&pod.Status, &core.PodCondition{Type: core.PodScheduled, Status: core.ConditionTrue})
	return nil
}

// keyNamed is the key in kube-apiserver's texts: the key in etcd, of which a dry run knows only a part.
func keyNamed(key resources.Key, dryRun []string) string {
	if dryrun.IsDryRun(dryRun) {
		return strings.TrimPrefix(key.InEtcd(), "/registry")
	}
	return key.InEtcd()
}

// checkPreconditions returns kube-apiserver's error, which names the key, if the object has another uid or
// resourceVersion than the given ones, where set.
func checkPreconditions(key string, m metav1.Object, uid, resourceVersion string) error {
	const format = "StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, " +
		"AdditionalErrorMsg: Precondition failed: %s in precondition: %s, %s in object meta: %s"
	if uid != "" && uid != string(m.GetUID()) {
		return fmt.Errorf(format, key, "UID", uid, "UID", m.GetUID())
	}
	if resourceVersion != "" && resourceVersion != m.GetResourceVersion() {
		return fmt.Errorf(format, key, "ResourceVersion", resourceVersion, "ResourceVersion", m.GetResourceVersion())
	}
	return nil
}
