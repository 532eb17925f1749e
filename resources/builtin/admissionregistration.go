package builtin

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	api "k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"

	"github.com/rowlock/rowlock/resources"
)

func admissionregistrationGroup(validating, mutating *resources.Type) resources.GroupSpec {
	v1 := admissionregistrationV1
	// Without an authorizer these strategies let everybody name any parameter, and ask neither of the other two.
	vap := validatingadmissionpolicy.NewStrategy(nil, unresolved{})
	vapb := validatingadmissionpolicybinding.NewStrategy(nil, nil, unresolved{})
	mp := mutatingadmissionpolicy.NewStrategy(nil, unresolved{})
	mapb := mutatingadmissionpolicybinding.NewStrategy(nil, nil, unresolved{})
	ext := in("api-extensions")
	return single(v1,
		define[api.MutatingAdmissionPolicy, api.MutatingAdmissionPolicyList](v1, "mutatingadmissionpolicies", mp, ext),
		define[api.MutatingAdmissionPolicyBinding, api.MutatingAdmissionPolicyBindingList](v1, "mutatingadmissionpolicybindings", mapb, ext),
		mutating,
		define[api.ValidatingAdmissionPolicy, api.ValidatingAdmissionPolicyList](v1, "validatingadmissionpolicies", vap, ext,
			statusAppliedNew(validatingadmissionpolicy.NewStatusStrategy(vap))),
		define[api.ValidatingAdmissionPolicyBinding, api.ValidatingAdmissionPolicyBindingList](v1, "validatingadmissionpolicybindings", vapb, ext),
		validating,
	)
}

var admissionregistrationV1 = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}

func validatingWebhooks() *resources.Type {
	return define[api.ValidatingWebhookConfiguration, api.ValidatingWebhookConfigurationList](admissionregistrationV1, "validatingwebhookconfigurations",
		validatingwebhookconfiguration.Strategy, in("api-extensions"))
}

func mutatingWebhooks() *resources.Type {
	return define[api.MutatingWebhookConfiguration, api.MutatingWebhookConfigurationList](admissionregistrationV1, "mutatingwebhookconfigurations",
		mutatingwebhookconfiguration.Strategy, in("api-extensions"))
}

// unresolved knows the resource of no kind.
type unresolved struct{}

// Resolve fails.
func (unresolved) Resolve(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}
