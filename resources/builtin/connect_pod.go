package builtin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	genericrest "k8s.io/apiserver/pkg/registry/generic/rest"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// podConnections are the subresources that connect to a running pod.
func podConnections(pods, nodes *resources.Type, p Parts) []*resources.Subresource {
	kubelets := func(s resources.Reader) kubeletsOf { return kubeletsOf{p.Kubelets, nodes, s} }
	return []*resources.Subresource{
		{Name: "attach", Kind: coreV1.WithKind("PodAttachOptions"), Verbs: connectVerbs, Connect: func(s resources.Reader) rest.Connecter {
			return &podrest.AttachREST{Store: getter{pods, s}, KubeletConn: kubelets(s), Authorizer: p.Authorizer}
		}},
		{Name: "exec", Kind: coreV1.WithKind("PodExecOptions"), Verbs: connectVerbs, Connect: func(s resources.Reader) rest.Connecter {
			return &podrest.ExecREST{Store: getter{pods, s}, KubeletConn: kubelets(s), Authorizer: p.Authorizer}
		}},
		{Name: "log", Kind: coreV1.WithKind("Pod"), Verbs: []string{"get"}, Stream: func(s resources.Reader) rest.GetterWithOptions {
			return podLogs{getter{pods, s}, kubelets(s)}
		}},
		{Name: "portforward", Kind: coreV1.WithKind("PodPortForwardOptions"), Verbs: connectVerbs, Connect: func(s resources.Reader) rest.Connecter {
			return &podrest.PortForwardREST{Store: getter{pods, s}, KubeletConn: kubelets(s), Authorizer: p.Authorizer}
		}},
		{Name: "proxy", Kind: coreV1.WithKind("PodProxyOptions"), Verbs: proxyVerbs, Connect: func(s resources.Reader) rest.Connecter {
			locate := func(ctx context.Context, id string) (*url.URL, http.RoundTripper, error) {
				return pod.ResourceLocation(ctx, getter{pods, s}, proxyTransport(), id)
			}
			return proxied[core.PodProxyOptions, *core.PodProxyOptions]{locate, func(o *core.PodProxyOptions) string { return o.Path }}
		}},
	}
}

// podLogs reads the log of a container. It is upstream's rest.GetterWithOptions.
type podLogs struct {
	pods     getter
	kubelets kubeletsOf
}

func (l podLogs) NewGetOptions() (runtime.Object, bool, string) {
	return &core.PodLogOptions{}, false, ""
}

// Get returns a rest.ResourceStreamer, which is empty for a pod that no node has started to run.
func (l podLogs) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	o, ok := options.(*core.PodLogOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	upstream.CountPodLog(o.InsecureSkipTLSVerifyBackend)
	split := utilfeature.DefaultFeatureGate.Enabled(features.PodLogsQuerySplitStreams)
	if split && o.Stream == nil {
		o.Stream = ptr.To(core.LogStreamAll)
	}
	if errs := validation.ValidatePodLogOptions(o, split); len(errs) > 0 {
		return nil, apierrors.NewInvalid(core.Kind("PodLogOptions"), name, errs)
	}
	location, transport, err := pod.LogLocation(ctx, l.pods, l.kubelets, name, o)
	if err != nil {
		return nil, err
	}
	return &genericrest.LocationStreamer{
		Location: location, Transport: transport, ContentType: "text/plain", Flush: o.Follow,
		ResponseChecker: genericrest.NewGenericHttpResponseChecker(core.Resource("pods/log"), name),
		RedirectChecker: genericrest.PreventRedirects, TLSVerificationErrorCounter: upstream.PodLogsUntrusted,
	}, nil
}
