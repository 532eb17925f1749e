package builtin

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	api "k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"

	"github.com/rowlock/rowlock/resources"
)

func admissionregistrationGroup(p Parts, validating, mutating *resources.Type) resources.GroupSpec {
	v1 := admissionregistrationV1
	// A user who names parameters, which the expressions may reveal, must have the right to read them.
	var by authorizer.UnconditionalAuthorizer
	if p.Rules != nil {
		by = p.Authorizer
	}
	kinds, policies := kindsOf{p.Registry}, &policies{reader: p.Reader}
	vap := validatingadmissionpolicy.NewStrategy(by, kinds)
	vapb := validatingadmissionpolicybinding.NewStrategy(by, policies, kinds)
	mp := mutatingadmissionpolicy.NewStrategy(by, kinds)
	mapb := mutatingadmissionpolicybinding.NewStrategy(by, policies, kinds)
	ext := in("api-extensions")
	policies.mutating = define[api.MutatingAdmissionPolicy, api.MutatingAdmissionPolicyList](v1, "mutatingadmissionpolicies", mp, ext)
	policies.validating = define[api.ValidatingAdmissionPolicy, api.ValidatingAdmissionPolicyList](v1, "validatingadmissionpolicies", vap, ext,
		statusAppliedNew(validatingadmissionpolicy.NewStatusStrategy(vap)))
	return single(v1,
		policies.mutating,
		define[api.MutatingAdmissionPolicyBinding, api.MutatingAdmissionPolicyBindingList](v1, "mutatingadmissionpolicybindings", mapb, ext),
		mutating,
		policies.validating,
		define[api.ValidatingAdmissionPolicyBinding, api.ValidatingAdmissionPolicyBindingList](v1, "validatingadmissionpolicybindings", vapb, ext),
		validating,
	)
}

var admissionregistrationV1 = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}

func validatingWebhooks() *resources.Type {
	return define[api.ValidatingWebhookConfiguration, api.ValidatingWebhookConfigurationList](admissionregistrationV1, "validatingwebhookconfigurations",
		validatingwebhookconfiguration.Strategy, in("api-extensions"), emptyBundles)
}

func mutatingWebhooks() *resources.Type {
	return define[api.MutatingWebhookConfiguration, api.MutatingWebhookConfigurationList](admissionregistrationV1, "mutatingwebhookconfigurations",
		mutatingwebhookconfiguration.Strategy, in("api-extensions"), emptyBundles)
}

// kindsOf finds the resources of the kinds that are served; nil: none. It is a resolver.ResourceResolver.
type kindsOf struct{ *resources.Registry }

// Resolve fails for a kind that is not served.
func (k kindsOf) Resolve(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	if k.Registry != nil {
		if s, ok := k.Catalog().Kind(gvk); ok {
			return gvk.GroupVersion().WithResource(s.Resource), nil
		}
	}
	return schema.GroupVersionResource{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// policies reads the policy of a binding.
type policies struct {
	reader               resources.Reader
	validating, mutating *resources.Type
}

// GetValidatingAdmissionPolicy implements validatingadmissionpolicybinding.PolicyGetter.
func (p *policies) GetValidatingAdmissionPolicy(ctx context.Context, name string) (*api.ValidatingAdmissionPolicy, error) {
	return find[*api.ValidatingAdmissionPolicy](ctx, p.reader, p.validating, p.validating.KeyOf("", name))
}

// GetMutatingAdmissionPolicy implements mutatingadmissionpolicybinding.PolicyGetter.
func (p *policies) GetMutatingAdmissionPolicy(ctx context.Context, name string) (*api.MutatingAdmissionPolicy, error) {
	return find[*api.MutatingAdmissionPolicy](ctx, p.reader, p.mutating, p.mutating.KeyOf("", name))
}
