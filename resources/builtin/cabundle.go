package builtin

import (
	"k8s.io/apimachinery/pkg/runtime"
	api "k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/rowlock/rowlock/resources"
)

// emptyBundles makes updates of webhook configurations treat empty CA bundles as absent. Upstream's strategies distinguish these when they decide
// whether the generation changes, as kube-apiserver's storage does. The stored JSON does not: without this, a manifest with `caBundle: ""` would
// be a change each time that it is applied.
func emptyBundles(t *resources.Type) {
	t.Prepare = func(obj runtime.Object) {
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
	}
}

func dropEmpty(b *[]byte) {
	if len(*b) == 0 {
		*b = nil
	}
}
