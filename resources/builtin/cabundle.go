package builtin

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	api "k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/rowlock/rowlock/resources"
)

// bundleStrategy updates webhook configurations. Upstream's strategies tell empty bytes from absent ones when they look whether the generation
// changes, as kube-apiserver's storage does. The JSON that is stored does not: a manifest with `caBundle: ""` would be a change each time that it
// is applied.
type bundleStrategy struct {
	rest.RESTUpdateStrategy
	rest.DeclarativeValidation
}

// emptyBundles has updates of a type take empty CA bundles for absent ones; d is what its strategy validates by.
func emptyBundles(d rest.DeclarativeValidation) option {
	return func(t *resources.Type) { t.UpdateStrategy = bundleStrategy{t.UpdateStrategy, d} }
}

// PrepareForUpdate takes out empty bundles before the objects are compared.
func (s bundleStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	switch c := obj.(type) {
	case *api.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			dropEmpty(&c.Webhooks[i].ClientConfig.CABundle)
		}
	case *api.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			dropEmpty(&c.Webhooks[i].ClientConfig.CABundle)
		}
	}
	s.RESTUpdateStrategy.PrepareForUpdate(ctx, obj, old)
}

func dropEmpty(b *[]byte) {
	if len(*b) == 0 {
		*b = nil
	}
}
