package equality

import (
	"reflect"
	"sync"
	"unsafe"

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
	upstream "k8s.io/apimachinery/pkg/api/equality"
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
)

// Register makes upstream's equality.Semantic, by which strategies and validation compare, use comparers for the types that
// are large and often compared. It must be called before anything compares; only the first call does anything.
//
// A type's function hides those of what is in it from copies of Semantic to which others are added. Upstream has two such
// copies. The field managers' is not used here (and With makes the like of it); the other compares the node affinity of
// PersistentVolumes but for some keys, so that no type below core.VolumeNodeAffinity may be here. Functions know no
// difference between nil and empty, and no derivation: nothing here asks Semantic for DeepEqualWithNilDifferentFromEmpty
// or DeepDerivative.
var Register = sync.OnceFunc(func() {
	structs[metav1.ObjectMeta]()
	structs[metav1.LabelSelector]()
	lists[metav1.OwnerReference]()
	lists[metav1.ManagedFieldsEntry]()
	lists[metav1.Condition]()
	registerInternal()
	registerVersioned()
})

// registerInternal is about what strategies and hand-written validation compare.
func registerInternal() {
	structs[core.PodSpec]()
	structs[core.PodTemplateSpec]()
	structs[core.Container]()
	structs[core.ResourceRequirements]()
	structs[core.PersistentVolumeSource]()
	structs[core.PersistentVolumeClaimSpec]()
	structs[core.ReplicationControllerSpec]()
	lists[core.Volume]()
	lists[core.EndpointSubset]()
	lists[core.PersistentVolumeClaim]()

	structs[apps.DaemonSetSpec]()
	structs[apps.DeploymentSpec]()
	structs[apps.ReplicaSetSpec]()
	structs[apps.StatefulSetSpec]()
	structs[autoscaling.HorizontalPodAutoscalerSpec]()
	structs[batch.CronJobSpec]()
	structs[batch.JobSpec]()
	structs[discovery.EndpointSlice]()
	lists[discovery.Endpoint]()
	structs[networking.IngressSpec]()
	structs[networking.NetworkPolicySpec]()
	structs[policy.PodDisruptionBudgetSpec]()
	structs[storage.CSIDriverSpec]()

	structs[admissionregistration.MutatingAdmissionPolicySpec]()
	structs[admissionregistration.MutatingAdmissionPolicyBindingSpec]()
	structs[admissionregistration.ValidatingAdmissionPolicySpec]()
	structs[admissionregistration.ValidatingAdmissionPolicyBindingSpec]()
	structs[apiextensions.CustomResourceDefinitionSpec]()
	structs[apiextensions.CustomResourceValidation]()
	lists[certificates.CertificateSigningRequestCondition]()
	structs[flowcontrol.FlowSchemaSpec]()
	structs[flowcontrol.PriorityLevelConfigurationSpec]()

	structs[resourceapi.AllocationResult]()
	structs[resourceapi.DeviceClassSpec]()
	structs[resourceapi.ResourceClaimSpec]()
	structs[resourceapi.ResourceClaimTemplateSpec]()
	structs[resourceapi.ResourceSliceSpec]()
}

// registerVersioned is about what generated validation compares, to pass over what has not changed. The types are those
// of the versions that are served without being asked for.
func registerVersioned() {
	structs[corev1.PersistentVolumeClaimStatus]()
	structs[corev1.PodSpec]()
	structs[corev1.PodStatus]()
	structs[corev1.PodTemplateSpec]()
	structs[corev1.ReplicationControllerSpec]()
	lists[corev1.PersistentVolumeClaim]()

	structs[appsv1.DaemonSetSpec]()
	structs[appsv1.DeploymentSpec]()
	structs[appsv1.ReplicaSetSpec]()
	structs[appsv1.StatefulSetSpec]()
	structs[autoscalingv1.HorizontalPodAutoscalerSpec]()
	structs[autoscalingv2.HorizontalPodAutoscalerSpec]()
	structs[autoscalingv2.HorizontalPodAutoscalerStatus]()
	structs[batchv1.CronJobSpec]()
	structs[batchv1.JobSpec]()
	structs[batchv1.JobTemplateSpec]()
	lists[discoveryv1.Endpoint]()
	structs[networkingv1.NetworkPolicySpec]()
	structs[policyv1.PodDisruptionBudgetStatus]()
	lists[rbacv1.PolicyRule]()
	lists[rbacv1.Subject]()
	structs[storagev1.CSIDriverSpec]()
	structs[storagev1.VolumeAttachmentSpec]()

	structs[admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec]()
	structs[admissionregistrationv1.ValidatingAdmissionPolicyStatus]()
	structs[certificatesv1.CertificateSigningRequestStatus]()
	structs[flowcontrolv1.PriorityLevelConfigurationSpec]()

	structs[resourcev1.AllocationResult]()
	structs[resourcev1.Device]()
	structs[resourcev1.DeviceClassSpec]()
	structs[resourcev1.ResourceClaimSpec]()
	structs[resourcev1.ResourceClaimStatus]()
	structs[resourcev1.ResourceClaimTemplateSpec]()
	structs[resourcev1.ResourceSliceSpec]()
	lists[resourcev1.Device]()
}

// structs registers a type that is compared by value and by pointer.
func structs[T any]() {
	register(func(a, b T) bool {
		return semantic.comparer(reflect.TypeFor[T]()).equal(unsafe.Pointer(&a), unsafe.Pointer(&b))
	})
	register(func(a, b *T) bool {
		return semantic.comparer(reflect.TypeFor[*T]()).equalPointers(unsafe.Pointer(a), unsafe.Pointer(b))
	})
}

// lists registers the lists of a type.
func lists[T any]() {
	register(func(a, b []T) bool {
		return semantic.comparer(reflect.TypeFor[[]T]()).equalLists(unsafe.Pointer(&a), unsafe.Pointer(&b))
	})
}

func register(equal any) {
	if err := upstream.Semantic.AddFunc(equal); err != nil {
		panic(err) // never: these functions have the right type
	}
}
