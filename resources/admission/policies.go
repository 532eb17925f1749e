package admission

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/client-go/dynamic"
)

// hook is a policy in the form that upstream's dispatchers take: P is its type, B the type of its bindings, E its compiled form.
type hook[P, B runtime.Object, E any] = generic.PolicyHook[P, B, E]

// policyKind has the differences between mutating and validating policies.
type policyKind[P, B runtime.Object, E any] struct {
	// policies and bindings are the types, by their names in the store.
	policies, bindings string
	accessor           func(P) generic.PolicyAccessor
	policyOf           func(B) generic.BindingAccessor
	compile            func(P) E
}

// policies are the policies of one kind. As upstream's source they provide what upstream's finds by informers and a loop: the
// compiled policies that have a binding. The first write after a change computes them from the
// store.
type policies[P, B runtime.Object, E any] struct {
	policyKind[P, B, E]
	*derived[*policySet[P, B, E]]
	informers *storeInformers

	// compiled are the policies of the last set, by name. Only the computation of the next set uses it.
	compiled map[string]compiledPolicy[E]
}

// policySet is a state of the policies.
type policySet[P, B runtime.Object, E any] struct {
	selections
	hooks []hook[P, B, E]
}

type compiledPolicy[E any] struct {
	revision  string
	evaluator E
	selection selection
}

func newPolicies[P, B runtime.Object, E any](f *storeInformers, kind policyKind[P, B, E], _ P, _ B) *policies[P, B, E] {
	s := &policies[P, B, E]{policyKind: kind, informers: f, compiled: map[string]compiledPolicy[E]{}}
	s.derived = newDerived(f.store, s.read, kind.policies, kind.bindings)
	return s
}

// read makes the set of all stored policies; if one cannot be read, there is no set. An unreadable policy must not turn others off.
func (s *policies[P, B, E]) read(context.Context) (*policySet[P, B, E], error) {
	stored, err := s.informers.informerOf(s.policies).indexer.Items()
	if err != nil {
		return nil, err
	}
	bound, err := s.informers.informerOf(s.bindings).indexer.Items()
	if err != nil {
		return nil, err
	}
	bindings := map[string][]B{}
	for _, item := range bound {
		b := item.(B)
		name := s.policyOf(b).GetPolicyName().Name
		bindings[name] = append(bindings[name], b)
	}
	set := &policySet[P, B, E]{selections: selections{store: s.store, registry: s.informers.registry}}
	compiled := map[string]compiledPolicy[E]{}
	for _, item := range stored { // in the order of their names
		policy := item.(P)
		m, err := meta.Accessor(policy)
		if err != nil {
			return nil, fmt.Errorf("read a policy: %w", err)
		}
		if len(bindings[m.GetName()]) == 0 {
			continue
		}
		c, ok := s.compiled[m.GetName()]
		if revision := m.GetResourceVersion(); !ok || c.revision != revision {
			c = compiledPolicy[E]{revision, s.compile(policy), policySelection(s.accessor(policy).GetMatchConstraints())}
		}
		compiled[m.GetName()] = c
		set.hooks = append(set.hooks, hook[P, B, E]{Policy: policy, Bindings: bindings[m.GetName()], Evaluator: c.evaluator})
		set.all = append(set.all, c.selection)
	}
	s.compiled = compiled
	return set, nil
}

// policySelection is the selection of a policy. It does not cover exclusions.
func policySelection(m *admissionregistrationv1.MatchResources) selection {
	if m == nil {
		return selection{unruled: true, namespaces: readSelector(nil), objects: readSelector(nil)}
	}
	var rules []admissionregistrationv1.RuleWithOperations
	for _, r := range m.ResourceRules {
		rules = append(rules, r.RuleWithOperations)
	}
	s := newSelection(rules, m.MatchPolicy, m.NamespaceSelector, m.ObjectSelector)
	s.unruled = len(rules) == 0
	return s
}

// Hooks implements upstream's Source: the last set. withParams adds the params.
func (s *policies[P, B, E]) Hooks() []hook[P, B, E] {
	if made := s.made.Load(); made != nil {
		return made.value.hooks
	}
	return nil
}

// Run implements upstream's Source: nothing has to run.
func (s *policies[P, B, E]) Run(context.Context) error { return nil }

// HasSynced implements upstream's Source.
func (s *policies[P, B, E]) HasSynced() bool { return true }

// policyPlugin is upstream's plugin of policies, called only for writes that a policy may apply to.
type policyPlugin[P, B runtime.Object, E any] struct {
	*generic.Plugin[hook[P, B, E]]
	source *policies[P, B, E]
}

// SetDynamicClient implements initializer.WantsDynamicClient. Params are read from the store.
func (p policyPlugin[P, B, E]) SetDynamicClient(dynamic.Interface) {
	p.Plugin.SetDynamicClient(struct{ dynamic.Interface }{})
}

// ofPolicies reports whether a write is one of policies and bindings, to which upstream applies only policies from files.
func ofPolicies(a admission.Attributes) bool {
	r := a.GetResource().GroupResource()
	return r.Group == admissionregistrationv1.GroupName && slices.Contains([]string{validatingPolicyResource, validatingBindingResource, mutatingPolicyResource,
		mutatingBindingResource}, r.String())
}

// dispatch applies the policies that a write may be for. The writes of policies are not among these, so that many of them compute no sets.
func (p policyPlugin[P, B, E]) dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if p.GetStaticManifestsDir() == "" && ofPolicies(a) {
		return nil
	}
	set, err := p.source.get(ctx)
	if err != nil && !rules.IsExemptAdmissionConfigurationResource(a) { // an exempt write may be the one that removes an unreadable policy
		return fmt.Errorf("follow %s: %w", p.source.policies, err)
	}
	if p.GetStaticManifestsDir() == "" && (err != nil || set.none(ctx, a, o)) {
		return nil
	}
	if err := restored(a, o); err != nil {
		return err
	}
	return p.Dispatch(ctx, a, o)
}
