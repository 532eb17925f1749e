package admission

import (
	"context"
	"fmt"
	"io"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/config"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"

	"github.com/rowlock/rowlock/resources"
)

// The types of mutating policies, by their names in the store.
const (
	mutatingPolicyResource  = "mutatingadmissionpolicies.admissionregistration.k8s.io"
	mutatingBindingResource = "mutatingadmissionpolicybindings.admissionregistration.k8s.io"
)

type (
	mutatingPolicy  = *admissionregistrationv1.MutatingAdmissionPolicy
	mutatingBinding = *admissionregistrationv1.MutatingAdmissionPolicyBinding
)

// mutatingPolicies is kube-apiserver's plugin MutatingAdmissionPolicy: upstream's, over a source of this package.
type mutatingPolicies struct {
	policyPlugin[mutatingPolicy, mutatingBinding, mutating.PolicyEvaluator]
	on bool
}

// InspectFeatureGates implements initializer.WantsFeatures.
func (p *mutatingPolicies) InspectFeatureGates(gates featuregate.FeatureGate) {
	p.on = gates.Enabled(features.MutatingAdmissionPolicy)
	p.SetEnabled(p.on)
}

// Admit implements admission.MutationInterface.
func (p *mutatingPolicies) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !p.on {
		return nil
	}
	return p.dispatch(ctx, a, o)
}

// mutatingPolicies registers MutatingAdmissionPolicy.
func (f *storeInformers) mutatingPolicies(ps *admission.Plugins) {
	ps.Register(mutating.PluginName, func(r io.Reader) (admission.Interface, error) {
		c, err := config.LoadMutatingConfig(r)
		if err != nil {
			return nil, err
		}
		f.Admissionregistration().V1().MutatingAdmissionPolicies().Informer()
		f.Admissionregistration().V1().MutatingAdmissionPolicyBindings().Informer()
		source := newPolicies(f, policyKind[mutatingPolicy, mutatingBinding, mutating.PolicyEvaluator]{
			policies: mutatingPolicyResource, bindings: mutatingBindingResource, accessor: mutating.NewMutatingAdmissionPolicyAccessor,
			policyOf: mutating.NewMutatingAdmissionPolicyBindingAccessor, compile: compileMutating}, mutatingPolicy(nil), mutatingBinding(nil))
		plugin := generic.NewPlugin(admission.NewHandler(admission.Create, admission.Update, admission.Connect), // a deletion has nothing to change
			func(informers.SharedInformerFactory, kubernetes.Interface, dynamic.Interface, meta.RESTMapper) generic.Source[mutating.PolicyHook] {
				return source
			},
			func(a authorizer.UnconditionalAuthorizer, m *matching.Matcher, _ kubernetes.Interface) generic.Dispatcher[mutating.PolicyHook] {
				return withParams[mutatingPolicy, mutatingBinding, mutating.PolicyEvaluator]{mutating.NewDispatcher(a, m, typeConverters{f.registry}), source}
			})
		plugin.SetStaticManifestsDir(c.StaticManifestsDir)
		return &mutatingPolicies{policyPlugin: policyPlugin[mutatingPolicy, mutatingBinding, mutating.PolicyEvaluator]{plugin, source}}, nil
	})
}

// typeConverters have the schemas of the served types.
type typeConverters struct{ registry *resources.Registry }

// Run implements patch.TypeConverterManager: nothing has to be fetched.
func (typeConverters) Run(context.Context) {}

// untypedKinds has no schemas: it refuses a merge by schema, and JSON patches need none.
var untypedKinds = sync.OnceValues(func() (managedfields.TypeConverter, error) { return managedfields.NewTypeConverter(nil, false) })

// GetTypeConverter implements patch.TypeConverterManager. Nil: the version is not served. A kind that only a subresource has (a Scale, an
// Eviction) has no converter: upstream does not find it in the document of a version either.
func (c typeConverters) GetTypeConverter(kind schema.GroupVersionKind) managedfields.TypeConverter {
	find, catalog := untypedKinds, c.registry.Catalog()
	if served, ok := catalog.Kind(kind); ok {
		find = served.TypeConverter
	} else if !catalog.Serves(kind.GroupVersion()) {
		return nil
	}
	converter, err := find()
	if err != nil {
		return nil
	}
	return converter
}

// compileMutating compiles the expressions of a policy. Their errors are reported when they are evaluated.
func compileMutating(p mutatingPolicy) mutating.PolicyEvaluator {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return mutating.PolicyEvaluator{Error: &apiservercel.Error{Type: apiservercel.ErrorTypeInternal,
			Detail: fmt.Sprintf("failed to initialize CEL compiler: %v", err)}}
	}
	all := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler.CompileAndStoreVariables(policyVariables(p.Spec.Variables), all, environment.StoredExpressions)
	made := mutating.PolicyEvaluator{CompositedCompiler: compiler}
	if conditions := matchExpressions(p.Spec.MatchConditions); len(conditions) > 0 {
		made.Matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, all, environment.StoredExpressions), p.Spec.FailurePolicy,
			"policy", "validate", p.Name) // upstream's metrics have this name
	}
	ofPatches := all
	ofPatches.HasPatchTypes = true
	for _, m := range p.Spec.Mutations {
		switch {
		case m.PatchType == admissionregistrationv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			made.Mutators = append(made.Mutators, patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(
				&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, ofPatches, environment.StoredExpressions)))
		case m.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			made.Mutators = append(made.Mutators, patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(
				&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, ofPatches, environment.StoredExpressions)))
		}
	}
	return made
}
