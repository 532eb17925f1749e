package builtin

import (
	"k8s.io/apimachinery/pkg/runtime"
	api "k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/rowlock/rowlock/resources"
)

// emptyBundles has updates of webhook configurations take empty CA bundles for absent ones. Upstream's strategies tell these apart when they look
// whether the generation changes, as kube-apiserver's storage does. The JSON that is stored does not: a manifest with `caBundle: ""` would be a
// change each time that it is applied.
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
