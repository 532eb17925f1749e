package upstream

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/certificates"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/apis/policy"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/storage"

	"github.com/rowlock/rowlock/resources/equality"
)

// useComparers makes upstream's equality.Semantic, by which strategies and validation compare, use comparers for the types
// that are large and often compared. There must be no comparison before it returns.
//
// A function for a type hides the functions for the types within it from copies of Semantic that add some. Upstream has two
// such copies. The field managers' is not used here (and equality.With makes its equivalent); the other compares the node
// affinity of PersistentVolumes except for some keys, so no type below core.VolumeNodeAffinity may be here. Functions do not
// distinguish nil and empty, and do not support derivation: nothing here calls Semantic's DeepEqualWithNilDifferentFromEmpty
// or DeepDerivative.
func useComparers() {
	for _, functions := range slices.Concat(comparedMeta, comparedInternal, comparedVersioned) {
		for _, equal := range functions() {
			if err := apiequality.Semantic.AddFunc(equal); err != nil {
				panic(err) // never: these functions have the right type
			}
		}
	}
}

var comparedMeta = []func() []any{
	equality.Structs[metav1.ObjectMeta],
	equality.Structs[metav1.LabelSelector],
	equality.Lists[metav1.OwnerReference],
	equality.Lists[metav1.ManagedFieldsEntry],
	equality.Lists[metav1.Condition],
}

// comparedInternal are the types that strategies and hand-written validation compare.
var comparedInternal = []func() []any{
	equality.Structs[core.PodSpec],
	equality.Structs[core.PodTemplateSpec],
	equality.Structs[core.Container],
	equality.Structs[core.ResourceRequirements],
	equality.Structs[core.PersistentVolumeSource],
	equality.Structs[core.PersistentVolumeClaimSpec],
	equality.Structs[core.ReplicationControllerSpec],
	equality.Lists[core.Volume],
	equality.Lists[core.EndpointSubset],
	equality.Lists[core.PersistentVolumeClaim],

	equality.Structs[apps.DaemonSetSpec],
	equality.Structs[apps.DeploymentSpec],
	equality.Structs[apps.ReplicaSetSpec],
	equality.Structs[apps.StatefulSetSpec],
	equality.Structs[autoscaling.HorizontalPodAutoscalerSpec],
	equality.Structs[batch.CronJobSpec],
	equality.Structs[batch.JobSpec],
	equality.Structs[discovery.EndpointSlice],
	equality.Lists[discovery.Endpoint],
	equality.Structs[networking.IngressSpec],
	equality.Structs[networking.NetworkPolicySpec],
	equality.Structs[policy.PodDisruptionBudgetSpec],
	equality.Structs[storage.CSIDriverSpec],

	equality.Structs[admissionregistration.MutatingAdmissionPolicySpec],
	equality.Structs[admissionregistration.MutatingAdmissionPolicyBindingSpec],
	equality.Structs[admissionregistration.ValidatingAdmissionPolicySpec],
	equality.Structs[admissionregistration.ValidatingAdmissionPolicyBindingSpec],
	equality.Structs[apiextensions.CustomResourceDefinitionSpec],
	equality.Structs[apiextensions.CustomResourceValidation],
	equality.Lists[certificates.CertificateSigningRequestCondition],
	equality.Structs[flowcontrol.FlowSchemaSpec],
	equality.Structs[flowcontrol.PriorityLevelConfigurationSpec],

	equality.Structs[resourceapi.AllocationResult],
	equality.Structs[resourceapi.DeviceClassSpec],
	equality.Structs[resourceapi.ResourceClaimSpec],
	equality.Structs[resourceapi.ResourceClaimTemplateSpec],
	equality.Structs[resourceapi.ResourceSliceSpec],
}

// comparedVersioned are the types that generated validation compares, to skip unchanged values: the types of the versions
// that are served by default.
var comparedVersioned = []func() []any{
	equality.Structs[corev1.PersistentVolumeClaimStatus],
	equality.Structs[corev1.PodSpec],
	equality.Structs[corev1.PodStatus],
	equality.Structs[corev1.PodTemplateSpec],
	equality.Structs[corev1.ReplicationControllerSpec],
	equality.Lists[corev1.PersistentVolumeClaim],

	equality.Structs[appsv1.DaemonSetSpec],
	equality.Structs[appsv1.DeploymentSpec],
	equality.Structs[appsv1.ReplicaSetSpec],
	equality.Structs[appsv1.StatefulSetSpec],
	equality.Structs[autoscalingv1.HorizontalPodAutoscalerSpec],
	equality.Structs[autoscalingv2.HorizontalPodAutoscalerSpec],
	equality.Structs[autoscalingv2.HorizontalPodAutoscalerStatus],
	equality.Structs[batchv1.CronJobSpec],
	equality.Structs[batchv1.JobSpec],
	equality.Structs[batchv1.JobTemplateSpec],
	equality.Lists[discoveryv1.Endpoint],
	equality.Structs[networkingv1.NetworkPolicySpec],
	equality.Structs[policyv1.PodDisruptionBudgetStatus],
	equality.Lists[rbacv1.PolicyRule],
	equality.Lists[rbacv1.Subject],
	equality.Structs[storagev1.CSIDriverSpec],
	equality.Structs[storagev1.VolumeAttachmentSpec],

	equality.Structs[admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec],
	equality.Structs[admissionregistrationv1.ValidatingAdmissionPolicyStatus],
	equality.Structs[certificatesv1.CertificateSigningRequestStatus],
	equality.Structs[flowcontrolv1.PriorityLevelConfigurationSpec],

	equality.Structs[resourcev1.AllocationResult],
	equality.Structs[resourcev1.Device],
	equality.Structs[resourcev1.DeviceClassSpec],
	equality.Structs[resourcev1.ResourceClaimSpec],
	equality.Structs[resourcev1.ResourceClaimStatus],
	equality.Structs[resourcev1.ResourceClaimTemplateSpec],
	equality.Structs[resourcev1.ResourceSliceSpec],
	equality.Lists[resourcev1.Device],
}
