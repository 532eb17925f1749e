package admission

import (
	"context"
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/config"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// The types of validating policies, by their names in the store.
const (
	validatingPolicyResource  = "validatingadmissionpolicies.admissionregistration.k8s.io"
	validatingBindingResource = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
)

type (
	validatingPolicy  = *admissionregistrationv1.ValidatingAdmissionPolicy
	validatingBinding = *admissionregistrationv1.ValidatingAdmissionPolicyBinding
)

// validatingPolicies is kube-apiserver's plugin ValidatingAdmissionPolicy: upstream's, over a source of this package.
type validatingPolicies struct {
	policyPlugin[validatingPolicy, validatingBinding, validating.Validator]
}

// Validate implements admission.ValidationInterface.
func (p validatingPolicies) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.dispatch(ctx, a, o)
}

// validatingPolicies registers ValidatingAdmissionPolicy.
func (f *storeInformers) validatingPolicies(ps *admission.Plugins) {
	ps.Register(validating.PluginName, func(r io.Reader) (admission.Interface, error) {
		c, err := config.LoadValidatingConfig(r)
		if err != nil {
			return nil, err
		}
		f.Admissionregistration().V1().ValidatingAdmissionPolicies().Informer()
		f.Admissionregistration().V1().ValidatingAdmissionPolicyBindings().Informer()
		source := newPolicies(f, policyKind[validatingPolicy, validatingBinding, validating.Validator]{
			policies: validatingPolicyResource, bindings: validatingBindingResource, accessor: validating.NewValidatingAdmissionPolicyAccessor,
			policyOf: validating.NewValidatingAdmissionPolicyBindingAccessor, compile: compileValidating}, validatingPolicy(nil), validatingBinding(nil))
		plugin := generic.NewPlugin(admission.NewHandler(admission.Connect, admission.Create, admission.Delete, admission.Update),
			func(informers.SharedInformerFactory, kubernetes.Interface, dynamic.Interface, meta.RESTMapper) generic.Source[validating.PolicyHook] {
				return source
			},
			func(a authorizer.UnconditionalAuthorizer, m *matching.Matcher, _ kubernetes.Interface) generic.Dispatcher[validating.PolicyHook] {
				return withParams[validatingPolicy, validatingBinding, validating.Validator]{validating.NewDispatcher(a, generic.NewPolicyMatcher(m)), source}
			})
		plugin.SetEnabled(true)
		plugin.SetStaticManifestsDir(c.StaticManifestsDir)
		return validatingPolicies{policyPlugin[validatingPolicy, validatingBinding, validating.Validator]{plugin, source}}, nil
	})
}

// compileValidating compiles the expressions of a policy. Their errors are reported when they are evaluated.
func compileValidating(p validatingPolicy) validating.Validator {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return validating.NewValidator(nil, nil, nil, nil, p.Spec.FailurePolicy, err)
	}
	all := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	ofMessages := all
	ofMessages.HasAuthorizer = false
	compile := func(expressions []cel.ExpressionAccessor, v cel.OptionalVariableDeclarations) cel.ConditionEvaluator {
		return compiler.CompileCondition(expressions, v, environment.StoredExpressions)
	}
	compiler.CompileAndStoreVariables(policyVariables(p.Spec.Variables), all, environment.StoredExpressions)
	var matcher matchconditions.Matcher
	if conditions := matchExpressions(p.Spec.MatchConditions); len(conditions) > 0 {
		matcher = matchconditions.NewMatcher(compile(conditions, all), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	// A validation without a messageExpression has a nil at its index.
	validations, messages := make([]cel.ExpressionAccessor, len(p.Spec.Validations)), make([]cel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	annotations := make([]cel.ExpressionAccessor, len(p.Spec.AuditAnnotations))
	for i, a := range p.Spec.AuditAnnotations {
		annotations[i] = &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression}
	}
	return validating.NewValidator(compile(validations, all), matcher, compile(annotations, all), compile(messages, ofMessages), p.Spec.FailurePolicy, nil)
}

func policyVariables(variables []admissionregistrationv1.Variable) []cel.NamedExpressionAccessor {
	named := make([]cel.NamedExpressionAccessor, len(variables))
	for i, v := range variables {
		named[i] = &validating.Variable{Name: v.Name, Expression: v.Expression}
	}
	return named
}

func matchExpressions(conditions []admissionregistrationv1.MatchCondition) []cel.ExpressionAccessor {
	expressions := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		expressions[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	return expressions
}
