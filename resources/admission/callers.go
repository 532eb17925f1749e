package admission

import (
	"context"
	"io"
	"net/http"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"
	"k8s.io/kubernetes/plugin/pkg/admission/imagepolicy"

	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/bounded"
	"github.com/rowlock/rowlock/resources/upstream"
)

// authorizer is the authorizer for expressions.
func (c Config) authorizer() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if c.Authorizer == nil {
			return authorizer.DecisionAllow, "", nil
		}
		return c.Authorizer.Authorize(ctx, a)
	})
}

// ownHost is the address of the server itself, as webhooks name it (behind.Self).
const ownHost = "kubernetes.default.svc:443"

// credentials resolves the clients of webhooks: by the configuration of the plugins, which others has, but within the process for
// webhooks that the server itself serves. The size of their answers is bounded.
func (c Config) credentials(others webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
	within := func() *rest.Config {
		return &rest.Config{WrapTransport: func(http.RoundTripper) http.RoundTripper { return c.Loopback }}
	}
	return &webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: func(host string) (*rest.Config, error) {
			if host == ownHost && c.Loopback != nil {
				return within(), nil
			}
			return bounded.Config(others.ClientConfigFor(host))
		},
		ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
			if behind.Self(namespace, name, port) && c.Loopback != nil {
				return within(), nil
			}
			return bounded.Config(others.ClientConfigForService(name, namespace, port))
		},
	}
}

// imagePolicy registers ImagePolicyWebhook, with bounded answers.
func imagePolicy(ps *admission.Plugins) {
	ps.Register(imagepolicy.PluginName, func(config io.Reader) (admission.Interface, error) {
		p, err := imagepolicy.NewImagePolicyWebhook(config)
		if err != nil {
			return nil, err
		}
		asks, err := upstream.WebhookOf(p)
		if err != nil {
			return nil, err
		}
		bounded.Webhook(asks)
		return p, nil
	})
}

// exclusions tells plugins which types are exempt from webhooks and policies.
type exclusions struct{}

// Initialize implements admission.PluginInitializer.
func (exclusions) Initialize(p admission.Interface) {
	if wants, ok := p.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(exclusion.Excluded())
	}
}
