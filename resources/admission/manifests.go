package admission

import (
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/manifest/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/manifest/source"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
)

// loadFrom makes the plugin take policies from the files in its configured directory, besides the stored ones: load reads them,
// at the start and when they change, and compile refuses an invalid one.
func (p policyPlugin[P, B, E]) loadFrom(load source.PolicyLoadFunc[P, B], compile source.PolicyCompiler[P, E], counted metrics.ManifestType) {
	nameOf := func(b B) string { return p.source.policyOf(b).GetPolicyName().Name }
	p.SetStaticSourceFactory(func(dir string) (generic.ReloadableSource[hook[P, B, E]], error) {
		static := source.NewStaticPolicySource(dir, p.GetAPIServerID(), compile, load, nameOf, counted)
		if err := static.LoadInitial(); err != nil {
			return nil, err
		}
		return static, nil
	})
}

// SetManifestLoaders implements initializer.WantsManifestLoaders. Without a loader its feature is off, and the plugin refuses a
// directory.
func (p *mutatingPolicies) SetManifestLoaders(l *initializer.ManifestLoaders) {
	if l.LoadMutatingPolicyManifests == nil {
		return
	}
	p.loadFrom(source.PolicyLoadFunc[mutatingPolicy, mutatingBinding](l.LoadMutatingPolicyManifests), func(policy mutatingPolicy) (mutating.PolicyEvaluator, error) {
		made := compileMutating(policy)
		return made, made.Error
	}, metrics.MAPManifestType)
}

// SetManifestLoaders implements initializer.WantsManifestLoaders, as that of mutatingPolicies.
func (p validatingPolicies) SetManifestLoaders(l *initializer.ManifestLoaders) {
	if l.LoadValidatingPolicyManifests == nil {
		return
	}
	p.loadFrom(source.PolicyLoadFunc[validatingPolicy, validatingBinding](l.LoadValidatingPolicyManifests), func(policy validatingPolicy) (validating.Validator, error) {
		made := compileValidating(policy)
		return made, made.CompileError()
	}, metrics.VAPManifestType)
}
