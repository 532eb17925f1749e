package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
)

// The types of the configurations of webhooks, by their names in the store.
const (
	mutatingConfigurations   = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	validatingConfigurations = "validatingwebhookconfigurations.admissionregistration.k8s.io"
)

// mutatingWebhooks is upstream's MutatingAdmissionWebhook, called only for writes that a webhook may apply to, after it has got
// every change of a configuration.
type mutatingWebhooks struct {
	*mutating.Plugin
	hooks *hooks
}

// Admit implements admission.MutationInterface.
func (w *mutatingWebhooks) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if none, err := w.hooks.none(ctx, a, o); none || err != nil {
		return err
	}
	if err := restored(a, o); err != nil {
		return err
	}
	return w.Plugin.Admit(ctx, a, o)
}

// restored restores the parts of a write's objects (resources.Lean) before a plugin reads them.
func restored(a admission.Attributes, o admission.ObjectInterfaces) error {
	if r, ok := o.(interface {
		Restored(obj runtime.Object) error
	}); ok {
		return errors.Join(r.Restored(a.GetObject()), r.Restored(a.GetOldObject()))
	}
	return nil
}

// validatingWebhooks is upstream's ValidatingAdmissionWebhook, with the same addition.
type validatingWebhooks struct {
	*validating.Plugin
	hooks *hooks
}

// Validate implements admission.ValidationInterface.
func (w *validatingWebhooks) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if none, err := w.hooks.none(ctx, a, o); none || err != nil {
		return err
	}
	if err := restored(a, o); err != nil {
		return err
	}
	return w.Plugin.Validate(ctx, a, o)
}

// mutatingWebhooks registers MutatingAdmissionWebhook.
func (f *storeInformers) mutatingWebhooks(ps *admission.Plugins) {
	ps.Register(mutating.PluginName, func(r io.Reader) (admission.Interface, error) {
		written, static, err := readWebhookConfig(r)
		if err != nil {
			return nil, err
		}
		plugin, err := mutating.NewMutatingWebhook(written)
		if err != nil {
			return nil, err
		}
		return &mutatingWebhooks{plugin, f.newHooks(mutatingConfigurations, static, mutatingSelections)}, nil
	})
}

// validatingWebhooks registers ValidatingAdmissionWebhook.
func (f *storeInformers) validatingWebhooks(ps *admission.Plugins) {
	ps.Register(validating.PluginName, func(r io.Reader) (admission.Interface, error) {
		written, static, err := readWebhookConfig(r)
		if err != nil {
			return nil, err
		}
		plugin, err := validating.NewValidatingAdmissionWebhook(written)
		if err != nil {
			return nil, err
		}
		return &validatingWebhooks{plugin, f.newHooks(validatingConfigurations, static, validatingSelections)}, nil
	})
}

// readWebhookConfig reads the configuration of one of these plugins (nil: none) and returns it for upstream to read again. static:
// a manifest has webhooks, which the store does not have.
func readWebhookConfig(r io.Reader) (again io.Reader, static bool, err error) {
	if r == nil {
		return nil, false, nil
	}
	written, err := io.ReadAll(r)
	if err != nil {
		return nil, false, err
	}
	c, err := config.LoadConfig(bytes.NewReader(written))
	if err != nil {
		return nil, false, err
	}
	return bytes.NewReader(written), c.StaticManifestsDir != "", nil
}

// hooks are the webhooks of one of the two kinds.
type hooks struct {
	*derived[*selections]
	// static: there are webhooks outside the store, so that the plugin always has to be called.
	static bool
}

// none reports that no webhook applies to a write. Otherwise the plugin has got all changes of webhooks when none returns.
func (h *hooks) none(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) (bool, error) {
	if rules.IsExemptAdmissionConfigurationResource(a) {
		return !h.static, nil // upstream calls no stored webhook for them, and such a write must be able to remove an unreadable one
	}
	s, err := h.get(ctx)
	if err != nil {
		return false, fmt.Errorf("follow %s: %w", h.resources[0], err)
	}
	return !h.static && s.none(ctx, a, o), nil
}

// newHooks follows the configurations of a resource; ofOne returns the selections of one configuration.
func (f *storeInformers) newHooks(resource string, static bool, ofOne func(configuration any) []selection) *hooks {
	return &hooks{static: static, derived: newDerived(f.store, func(context.Context) (*selections, error) {
		if err := f.catchUp(resource); err != nil {
			return nil, err
		}
		made := &selections{store: f.store, registry: f.registry}
		for _, configuration := range f.informerOf(resource).indexer.List() {
			made.all = append(made.all, ofOne(configuration)...)
		}
		return made, nil
	}, resource)}
}

func mutatingSelections(configuration any) (all []selection) {
	for _, h := range configuration.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks {
		all = append(all, newSelection(h.Rules, h.MatchPolicy, h.NamespaceSelector, h.ObjectSelector))
	}
	return all
}

func validatingSelections(configuration any) (all []selection) {
	for _, h := range configuration.(*admissionregistrationv1.ValidatingWebhookConfiguration).Webhooks {
		all = append(all, newSelection(h.Rules, h.MatchPolicy, h.NamespaceSelector, h.ObjectSelector))
	}
	return all
}
